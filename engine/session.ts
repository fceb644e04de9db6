/**
 * One timeline of tokens: its caches, its position, and the plays that move it. Owns prefill in chunks,
 * decode in runs of tokens, and reading results back; knows no text.
 */
import {
  type ForwardShape,
  type KvType,
  type Output,
  type Plan,
  ROWS_MAX,
} from "../kernels/models/forward.ts";
import { ATTN_BLOCK, DRAFTS_MAX, HALT, type HaltReason, STEP } from "../kernels/step.ts";
import { AXIS_MAX } from "../ffi/abi/layout.ts";
import { UserError } from "./errors.ts";
import { prefillRowsDefault } from "./prefill_rows.ts";
import { checkContext, checkMemory } from "./memory.ts";
import type { LoadedModel } from "./model.ts";
import { playSoon } from "./short_plays.ts";
import { isRecurrent, type ReadyTape, SessionState, type Snapshot } from "./state.ts";
import { type RoundCounts, type RunOptions, StepBlock } from "./step_block.ts";
import { refuseOverflow, refuseUnknown } from "./token_checks.ts";

export interface SessionOptions {
  /** Positions to allocate; default: 4096 or `room`, at most the model's own maximum. */
  readonly ctx?: number;
  /** Tokens that must fit where ctx is not given. */
  readonly room?: number;
  /** Element type of the KV cache; default f16. */
  readonly kv?: KvType;
  /** Tokens of one prefill play; default 512, on CUDA 2048. */
  readonly prefillRows?: number;
  /** Allows more positions than the model was made for: where time counts and not what it says. */
  readonly stretch?: boolean;
  /** Feeds the model's MTP head with every token, so that rounds can let it draft. */
  readonly draftHead?: boolean;
}

export const CTX_DEFAULT = 4096;

type Taps = Pick<ForwardShape, "tapLayers" | "tapRouting" | "givenRouting" | "tapHead"> & {
  /** Instead of the model's own. */
  readonly plan?: Plan;
  /** Drafts that the head is to leave behind the play. */
  readonly drafts?: number;
};

/** The form of a speculative round. */
export interface RoundShape {
  /** The last token and the drafts behind it, at most ROWS_MAX. */
  readonly rows: number;
  /** Drafts that the head makes for the next round; the session needs one then. Default 0. */
  readonly drafts?: number;
}

export interface ForwardOptions extends Taps {
  /** The token after the last id. */
  readonly next?: number;
}

/** Attention forms are recorded per bucket of keys: powers of four from one block up. */
export function keyBucket(keys: number, ctx: number): number {
  let bucket = ATTN_BLOCK;
  while (bucket < keys) bucket *= 4;
  return Math.min(bucket, Math.max(ctx, ATTN_BLOCK));
}

export type { RunOptions };

export class Session implements Disposable {
  readonly ctx: number;
  readonly kv: KvType;
  readonly prefillRows: number;
  readonly draftHead: boolean;
  readonly #state: SessionState;
  readonly #step: StepBlock;
  #pos = 0;
  /** Whether the drafts that the step block counts are ones for the present position. */
  #drafted = false;

  constructor(readonly model: LoadedModel, options: SessionOptions = {}) {
    const { contextMax } = model.config;
    this.ctx = options.ctx ?? Math.min(Math.max(CTX_DEFAULT, options.room ?? 0), contextMax);
    this.kv = options.kv ?? "f16";
    this.prefillRows = options.prefillRows ?? prefillRowsDefault(model.device.info.kind);
    this.draftHead = options.draftHead ?? false;
    if (this.draftHead && !model.hasDraftHead) {
      throw new UserError(`${model.name} was opened without its MTP draft head.`);
    }
    checkContext(model, this.ctx, options.stretch ? Math.max(contextMax, AXIS_MAX) : contextMax);
    checkMemory(model, this.ctx, this.kv, this.prefillRows, this.draftHead);
    this.#state = new SessionState(model);
    this.#step = new StepBlock(this.#state, this.ctx, model.vocabUsed);
    // The decode tape names every state tensor; making it now fails early and outside any timing.
    this.#tape(1, 1, "sample");
    this.reset();
  }

  /** Tokens in the caches. */
  get pos(): number {
    return this.#pos;
  }
  /** Bytes of caches, recurrent state, results and scratch. */
  get bytes(): number {
    return this.#state.bytes;
  }

  /** Back to an empty timeline: recurrent state zero, position 0. */
  reset(): void {
    const zeros = new Uint8Array(1 << 20);
    for (const [name, memory] of this.#state.states) {
      if (!isRecurrent(name)) continue;
      for (let at = 0; at < memory.bytes; at += zeros.length) {
        memory.write(at, zeros.subarray(0, Math.min(zeros.length, memory.bytes - at)));
      }
    }
    this.#pos = 0;
    this.#step.clear();
  }

  /** Sets what the next sampled tokens obey and clears the halt. */
  begin(run: RunOptions): void {
    this.#step.begin(this.#pos, run);
    this.#drafted = false;
  }

  /**
   * Runs `ids` through the model in chunks and samples the token after them; the head then drafts `drafts`
   * tokens. Needs begin().
   */
  async prefill(
    ids: Uint32Array<ArrayBuffer>,
    signal?: AbortSignal,
    drafts = 0,
  ): Promise<void> {
    this.#refuse(ids);
    this.#refuseDrafts(drafts);
    this.#step.place(this.#pos, ids);
    this.#drafted = false;
    for (let at = 0; at < ids.length && !signal?.aborted;) {
      const rows = Math.min(this.prefillRows, ids.length - at);
      const last = at + rows === ids.length;
      const tape = last
        ? this.#tape(rows, this.#pos + rows, "sample", { drafts })
        : this.#tape(rows, this.#pos + rows, "none");
      await playSoon(tape.loaded, 1);
      this.#pos += rows;
      at += rows;
      if (last) this.#step.firstAt(this.#pos);
      this.#drafted = last && drafts > 0;
    }
  }

  /** Makes `id` the token that the next decode goes on from, where none was sampled. Needs begin(). */
  place(id: number): void {
    refuseOverflow(this.model, this.ctx, this.#pos, 1);
    this.#step.place(this.#pos, Uint32Array.of(id));
    this.#step.firstAt(this.#pos + 1);
    this.#drafted = false;
  }

  /**
   * Decodes up to `n` more tokens, and lets the head draft behind each where `drafts` says so; returns why
   * the device stopped, "running" when it did not.
   */
  async decode(n: number, drafts = 0): Promise<HaltReason> {
    this.#refuseDrafts(drafts);
    const room = Math.min(n, this.ctx - this.#pos);
    // A player that samples nothing never halts by itself.
    if (room <= 0) return this.#pos < this.ctx ? this.halted() : "contextFull";
    this.#drafted = false;
    const { loaded } = this.#tape(1, this.#pos + room, "sample", { drafts });
    const played = await playSoon(loaded, room);
    this.#pos += played;
    this.#drafted = drafts > 0;
    return this.halted();
  }

  /** Gives the next round its drafts: tokens that may follow the last one. As many as fit are taken. */
  draft(ids: readonly number[]): void {
    refuseUnknown(this.model, Uint32Array.from(ids));
    this.#step.draft(this.#pos, ids);
    this.#drafted = true;
  }

  /** The drafts that the next round will verify: those of draft() or of the head. */
  drafts(): Uint32Array<ArrayBuffer> {
    return this.#drafted ? this.#step.drafts(this.#pos) : new Uint32Array(0);
  }

  /**
   * Plays up to `n` speculative rounds in one call; each verifies the drafts that stand behind the position,
   * those of draft() or of the head. Tokens, states and caches come out as decode() makes them. Returns why
   * the device stopped.
   */
  async rounds(n: number, { rows, drafts = 0 }: RoundShape): Promise<HaltReason> {
    this.#refuseDrafts(drafts);
    const before = this.#pos, most = Math.min(n, this.ctx - before);
    if (most <= 0) return before < this.ctx ? this.halted() : "contextFull";
    if (!this.#drafted) this.#step.draft(before, []);
    this.#drafted = false;
    const keys = Math.min(before + most * rows, this.ctx);
    const played = await playSoon(this.#tape(rows, keys, "round", { drafts }).loaded, most);
    // A player that computes nothing moves no position.
    this.#pos = Math.max(this.#step.read(STEP.pos, 1)[0], before + played);
    this.#drafted = drafts > 0;
    return this.halted();
  }

  /** What rounds came to since begin(). */
  counts(): RoundCounts {
    return this.#step.counts();
  }

  /** Why the device stopped sampling. */
  halted(): HaltReason {
    return this.#step.halted();
  }

  /** Tokens sampled since begin() that were not taken yet. */
  take(): Uint32Array {
    return this.#step.take();
  }

  /**
   * One play over `ids` at the current position, as one piece. `logits` gives f32 [rows, vocab], `nll`
   * the f32 [rows] likelihoods of the tokens behind each row (`next` is the one after the last).
   */
  async forward(
    ids: Uint32Array<ArrayBuffer>,
    output: Exclude<Output, "sample" | "round">,
    options: ForwardOptions = {},
  ): Promise<Float32Array<ArrayBuffer>> {
    await this.run(ids, output, options);
    if (output === "none") return new Float32Array(0);
    return this.readState(output, ids.length * (output === "logits" ? this.model.config.vocab : 1));
  }

  /** As forward, but leaves the results on the device. */
  async run(
    ids: Uint32Array<ArrayBuffer>,
    output: Exclude<Output, "sample" | "round">,
    options: ForwardOptions = {},
  ): Promise<void> {
    this.#refuse(ids);
    this.#step.place(this.#pos, ids);
    if (options.next !== undefined && this.#pos + ids.length < this.ctx) {
      this.#step.place(this.#pos + ids.length, Uint32Array.of(options.next));
    }
    this.#step.write(STEP.halt, HALT.running);
    this.#drafted = (options.drafts ?? 0) > 0;
    const rows = ids.length;
    await playSoon(this.#tape(rows, this.#pos + rows, output, options).loaded, 1);
    this.#pos += rows;
  }

  /** The experts that the rows of a forward with `tapRouting` chose in a layer, [rows, topK]. */
  readRouting(layer: number, rows: number): Uint32Array<ArrayBuffer> {
    const out = new Uint32Array(rows * this.model.config.topK);
    this.#state.memory(`ids.${layer}`, out.byteLength).read(0, out);
    return out;
  }

  /** The experts that the rows of a forward with `givenRouting` are to use in a layer, [rows, topK]. */
  writeRouting(layer: number, ids: Uint32Array<ArrayBuffer>): void {
    this.#state.memory(`given.${layer}`, ids.byteLength).write(0, ids);
  }

  /** Frees results that were kept for reading, and the tapes that write them. */
  releaseResults(): void {
    this.#state.releaseResults();
  }

  /** f32 values of a state tensor: `x`, `normed`, `logits`, `gdn.states`, `conv.states`, ... */
  readState(name: string, elements: number): Float32Array<ArrayBuffer> {
    const out = new Float32Array(elements);
    this.#state.memory(name, elements * 4).read(0, out);
    return out;
  }

  /** Raw bytes of every recurrent state, and of every cache, by name: for comparing timelines. */
  readStates(which: "all" | "recurrent" = "all"): Map<string, Uint8Array<ArrayBuffer>> {
    const out = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const [name, memory] of this.#state.states) {
      if (!isRecurrent(name) && !(which === "all" && name.startsWith("kv."))) continue;
      const bytes = new Uint8Array(memory.bytes);
      memory.read(0, bytes);
      out.set(name, bytes);
    }
    return out;
  }

  /** Keeps the present position, its token and the recurrent state; restore it as often as wanted. */
  snapshot(): Snapshot {
    return this.#state.snapshot(this.#pos, this.#step.mark(this.#pos));
  }

  /**
   * Back to a snapshot of this session. Keys and values before its position must still be the ones it
   * saw: a session that went back further and on along other tokens cannot return to it.
   */
  restore(snapshot: Snapshot): void {
    this.#state.restore(snapshot);
    this.#pos = snapshot.pos;
    this.#step.goBack(snapshot.pos, snapshot.run);
    this.#drafted = false;
  }

  /** The tape that a play of this kind uses; recorded and loaded if it is new. */
  tapeFor(rows: number, keys: number, output: Output, drafts = 0): ReadyTape {
    return this.#tape(rows, keys, output, { drafts });
  }

  #tape(rows: number, keys: number, output: Output, taps: Taps = {}): ReadyTape {
    const { plan = this.model.plan, drafts = 0, ...others } = taps;
    // The head's own steps see keys behind those of the rows.
    const seen = Math.min(keys + drafts, this.ctx);
    const shape: ForwardShape = {
      rows,
      ctx: this.ctx,
      keys: rows <= ROWS_MAX ? keyBucket(seen, this.ctx) : this.ctx,
      kv: this.kv,
      output,
      plan,
      ...(this.draftHead && taps.tapLayers === undefined ? { head: true } : {}),
      ...(drafts > 0 ? { drafts } : {}),
      ...others,
    };
    return this.#state.tape(shape);
  }

  #refuseDrafts(drafts: number): void {
    if (drafts === 0) return;
    if (!this.draftHead) throw new Error("Only a session with the MTP head can let it draft");
    if (drafts > DRAFTS_MAX) throw new RangeError(`${drafts} drafts: at most ${DRAFTS_MAX}`);
  }

  #refuse(ids: Uint32Array): void {
    refuseOverflow(this.model, this.ctx, this.#pos, ids.length);
    refuseUnknown(this.model, ids);
  }

  [Symbol.dispose](): void {
    this.#state[Symbol.dispose]();
  }
}
