/**
 * One timeline of tokens: its caches, its position, and the plays that move it. Owns prefill in chunks,
 * decode in runs of tokens, and reading results back; knows no text.
 */
import { readRing } from "../ffi/abi/handle.ts";
import type { Memory } from "../ffi/abi/handle.ts";
import {
  type ForwardShape,
  type KvType,
  type Output,
  type Plan,
  ROWS_MAX,
} from "../kernels/models/forward.ts";
import { ATTN_BLOCK, HALT, type HaltReason, STEP, STEP_WORDS, STOPS_MAX } from "../kernels/step.ts";
import { AXIS_MAX } from "../ffi/abi/layout.ts";
import { UserError } from "./errors.ts";
import type { Sampling } from "./generation_config.ts";
import { checkMemory } from "./memory.ts";
import type { LoadedModel } from "./model.ts";
import { isRecurrent, type ReadyTape, SessionState, type Snapshot } from "./state.ts";
import { counted } from "./wording.ts";

export interface SessionOptions {
  /** Positions to allocate; default: 4096 or `room`, at most the model's own maximum. */
  readonly ctx?: number;
  /** Tokens that must fit where ctx is not given. */
  readonly room?: number;
  /** Element type of the KV cache; default f16. */
  readonly kv?: KvType;
  /** Tokens of one prefill play; default 512. */
  readonly prefillRows?: number;
  /** Allows more positions than the model was made for: where time counts and not what it says. */
  readonly stretch?: boolean;
}

export const CTX_DEFAULT = 4096;
export const PREFILL_ROWS_DEFAULT = 512;
const U32_MAX = 2 ** 32 - 1;

/** What a run of sampled tokens obeys. */
export interface RunOptions {
  readonly sampling: Sampling;
  readonly stopIds: readonly number[];
  /** Tokens that may be produced before the device halts by itself. */
  readonly limit: number;
}

type Taps = Pick<ForwardShape, "tapLayers" | "tapRouting" | "givenRouting"> & {
  /** Instead of the model's own. */
  readonly plan?: Plan;
};

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

export class Session implements Disposable {
  readonly ctx: number;
  readonly kv: KvType;
  readonly prefillRows: number;
  readonly #state: SessionState;
  #pos = 0;
  #first = 0;
  #taken = 0;

  constructor(readonly model: LoadedModel, options: SessionOptions = {}) {
    const { contextMax } = model.config;
    this.ctx = options.ctx ?? Math.min(Math.max(CTX_DEFAULT, options.room ?? 0), contextMax);
    this.kv = options.kv ?? "f16";
    this.prefillRows = options.prefillRows ?? PREFILL_ROWS_DEFAULT;
    const most = options.stretch ? Math.max(contextMax, AXIS_MAX) : contextMax;
    if (!Number.isInteger(this.ctx) || this.ctx < 1 || this.ctx > most) {
      throw new UserError(
        `Context of ${this.ctx} tokens: ${model.name} takes 1 to ${contextMax}. Give --ctx a number in that range.`,
      );
    }
    checkMemory(model, this.ctx, this.kv, this.prefillRows);
    this.#state = new SessionState(model);
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
    this.#step.stepWrite(0, new Uint32Array(STEP_WORDS));
    this.#write(STEP.ctx, this.ctx);
    this.#write(STEP.vocabUsed, this.model.vocabUsed);
  }

  /** Sets what the next sampled tokens obey and clears the halt. */
  begin(run: RunOptions): void {
    const words = new Uint32Array(STEP_WORDS), floats = new Float32Array(words.buffer);
    const { sampling: s } = run;
    const stops = [...new Set(run.stopIds)];
    if (stops.length > STOPS_MAX) {
      throw new UserError(`${stops.length} stop tokens: at most ${STOPS_MAX} can be given.`);
    }
    words[STEP.pos] = this.#pos;
    words[STEP.limit] = Math.min(run.limit, U32_MAX);
    words[STEP.ctx] = this.ctx;
    words[STEP.vocabUsed] = this.model.vocabUsed;
    words[STEP.seedLo] = s.seed >>> 0;
    words[STEP.seedHi] = Math.floor(s.seed / 2 ** 32) >>> 0;
    floats[STEP.temperature] = s.temperature;
    words[STEP.topK] = Math.min(s.topK, U32_MAX);
    floats[STEP.topP] = s.topP;
    floats[STEP.minP] = s.minP;
    floats[STEP.repeatPenalty] = s.repeatPenalty;
    words[STEP.repeatWindow] = s.repeatWindow;
    words[STEP.stops] = stops.length;
    words.set(stops, STEP.stopIds);
    this.#step.stepWrite(0, words);
    this.#taken = 0;
  }

  /** Runs `ids` through the model in chunks and samples the token after them. Needs begin(). */
  async prefill(ids: Uint32Array<ArrayBuffer>, signal?: AbortSignal): Promise<void> {
    this.#refuseOverflow(ids.length);
    this.#refuseUnknown(ids);
    this.#history.write(this.#pos * 4, ids);
    for (let at = 0; at < ids.length && !signal?.aborted;) {
      const rows = Math.min(this.prefillRows, ids.length - at);
      const last = at + rows === ids.length;
      await this.#tape(rows, this.#pos + rows, last ? "sample" : "none").loaded.playAsync(1);
      this.#pos += rows;
      at += rows;
      if (last) this.#first = this.#pos;
    }
  }

  /** Makes `id` the token that the next decode goes on from, where none was sampled. Needs begin(). */
  place(id: number): void {
    this.#refuseOverflow(1);
    this.#history.write(this.#pos * 4, Uint32Array.of(id));
    this.#first = this.#pos + 1;
  }

  /** Decodes up to `n` more tokens; returns why the device stopped, "running" when it did not. */
  async decode(n: number): Promise<HaltReason> {
    const room = Math.min(n, this.ctx - this.#pos);
    // A player that samples nothing never halts by itself.
    if (room <= 0) return this.#pos < this.ctx ? this.halted() : "contextFull";
    const played = await this.#tape(1, this.#pos + room, "sample").loaded.playAsync(room);
    this.#pos += played;
    return this.halted();
  }

  /** Why the device stopped sampling. */
  halted(): HaltReason {
    const [halt] = this.#read(STEP.halt, 1);
    return (Object.keys(HALT) as HaltReason[]).find((k) => HALT[k] === halt) ?? "running";
  }

  /** Tokens sampled since begin() that were not taken yet. */
  take(): Uint32Array {
    const buffer = new Uint32Array(256), out: number[] = [];
    for (;;) {
      const n = readRing(this.#step, this.#history, this.#first, this.#taken, buffer);
      if (n === 0) break;
      out.push(...buffer.subarray(0, n));
      this.#taken += n;
    }
    // A token sampled for the position just behind the context has no place in the history.
    const [produced] = this.#read(STEP.produced, 1);
    if (produced > this.#taken) {
      out.push(this.#read(STEP.sampled, 1)[0]);
      this.#taken = produced;
    }
    return Uint32Array.from(out);
  }

  /**
   * One play over `ids` at the current position, as one piece. `logits` gives f32 [rows, vocab], `nll`
   * the f32 [rows] likelihoods of the tokens behind each row (`next` is the one after the last).
   */
  async forward(
    ids: Uint32Array<ArrayBuffer>,
    output: Exclude<Output, "sample">,
    options: ForwardOptions = {},
  ): Promise<Float32Array<ArrayBuffer>> {
    await this.run(ids, output, options);
    if (output === "none") return new Float32Array(0);
    return this.readState(output, ids.length * (output === "logits" ? this.model.config.vocab : 1));
  }

  /** As forward, but leaves the results on the device. */
  async run(
    ids: Uint32Array<ArrayBuffer>,
    output: Exclude<Output, "sample">,
    options: ForwardOptions = {},
  ): Promise<void> {
    this.#refuseOverflow(ids.length);
    this.#refuseUnknown(ids);
    this.#history.write(this.#pos * 4, ids);
    if (options.next !== undefined && this.#pos + ids.length < this.ctx) {
      this.#history.write((this.#pos + ids.length) * 4, Uint32Array.of(options.next));
    }
    this.#write(STEP.halt, HALT.running);
    const rows = ids.length;
    await this.#tape(rows, this.#pos + rows, output, options).loaded.playAsync(1);
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

  /** f32 values of a state tensor: `x`, `normed`, `logits`, `gdn.N`, `conv.N`, ... */
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

  /** Keeps the present position and recurrent state; restore it as often as wanted. */
  snapshot(): Snapshot {
    return this.#state.snapshot(this.#pos);
  }

  /**
   * Back to a snapshot of this session. Keys and values before its position must still be the ones it
   * saw: a session that went back further and on along other tokens cannot return to it.
   */
  restore(snapshot: Snapshot): void {
    this.#state.restore(snapshot);
    this.#pos = snapshot.pos;
    this.#write(STEP.pos, this.#pos);
    this.#write(STEP.halt, HALT.running);
  }

  /** The tape that a play of this kind uses; recorded and loaded if it is new. */
  tapeFor(rows: number, keys: number, output: Output): ReadyTape {
    return this.#tape(rows, keys, output);
  }

  #tape(rows: number, keys: number, output: Output, taps: Taps = {}): ReadyTape {
    const shape: ForwardShape = {
      rows,
      ctx: this.ctx,
      keys: rows <= ROWS_MAX ? keyBucket(keys, this.ctx) : this.ctx,
      kv: this.kv,
      output,
      plan: taps.plan ?? this.model.plan,
      ...(taps.tapLayers === undefined ? {} : { tapLayers: taps.tapLayers }),
      ...(taps.tapRouting ? { tapRouting: true } : {}),
      ...(taps.givenRouting ? { givenRouting: true } : {}),
    };
    return this.#state.tape(shape);
  }

  #refuseOverflow(tokens: number): void {
    if (tokens < 1) throw new UserError("The prompt has no tokens. Give some text.");
    const end = this.#pos + tokens, { contextMax } = this.model.config;
    if (end <= this.ctx) return;
    throw new UserError(
      `${counted(end, "token does", "tokens do")} not fit into a context of ${this.ctx}. ` +
        (end < contextMax
          ? `Give --ctx at least ${end + 1} (the model's maximum is ${contextMax}).`
          : `Give a shorter text: the model's maximum is ${contextMax}.`),
    );
  }

  /** A tokenizer of another model may name rows that the embedding does not have. */
  #refuseUnknown(ids: Uint32Array): void {
    const { vocab } = this.model.config;
    const id = ids.find((n) => n >= vocab);
    if (id === undefined) return;
    throw new UserError(
      `Token ${id} is not one of ${this.model.name}, which has ${vocab}. ` +
        `Use the tokenizer.json that was published with the tensors.`,
    );
  }

  get #step(): Memory {
    return this.#state.memory("step", STEP_WORDS * 4);
  }

  get #history(): Memory {
    return this.#state.memory("history", this.ctx * 4);
  }

  #read(word: number, n: number): Uint32Array {
    const out = new Uint32Array(n);
    this.#step.stepRead(word, out);
    return out;
  }

  #write(word: number, value: number): void {
    this.#step.stepWrite(word, Uint32Array.of(value));
  }

  [Symbol.dispose](): void {
    this.#state[Symbol.dispose]();
  }
}
