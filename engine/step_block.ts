/**
 * The step block and the history of a session as the host sees them: what a run obeys, tokens taken, drafts
 * placed, counts of rounds. Owns the meaning of the words; plays nothing.
 */
import { type Memory, readRing } from "../ffi/abi/handle.ts";
import { DRAFTS_MAX, HALT, type HaltReason, STEP, STEP_WORDS, STOPS_MAX } from "../kernels/step.ts";
import { UserError } from "./errors.ts";
import type { Sampling } from "./generation_config.ts";
import type { SessionState } from "./state.ts";

const U32_MAX = 2 ** 32 - 1;

/** What a run of sampled tokens obeys. */
export interface RunOptions {
  readonly sampling: Sampling;
  readonly stopIds: readonly number[];
  /** Tokens that may be produced before the device halts by itself. */
  readonly limit: number;
}

/** What speculative rounds came to since begin(). */
export interface RoundCounts {
  readonly rounds: number;
  readonly drafted: number;
  readonly accepted: number;
  /** How often the draft at each place of its round was accepted. */
  readonly acceptedAt: readonly number[];
}

/** How far a run had come, for going back to it. */
export interface RunMark {
  readonly run: number;
  readonly first: number;
  readonly taken: number;
  readonly produced: number;
  /** The token at the position, which the next play reads; undefined where the context ends. */
  readonly anchor: number | undefined;
}

export class StepBlock {
  #run = 0;
  #first = 0;
  #taken = 0;

  constructor(
    readonly state: SessionState,
    readonly ctx: number,
    readonly vocabUsed: number,
  ) {}

  /** An empty timeline. */
  clear(): void {
    this.#memory.stepWrite(0, new Uint32Array(STEP_WORDS));
    this.write(STEP.ctx, this.ctx);
    this.write(STEP.vocabUsed, this.vocabUsed);
  }

  /** Sets what the next sampled tokens obey and clears the halt. */
  begin(pos: number, run: RunOptions): void {
    const words = new Uint32Array(STEP_WORDS), floats = new Float32Array(words.buffer);
    const { sampling: s } = run;
    const stops = [...new Set(run.stopIds)];
    if (stops.length > STOPS_MAX) {
      throw new UserError(`${stops.length} stop tokens: at most ${STOPS_MAX} can be given.`);
    }
    words[STEP.pos] = pos;
    words[STEP.limit] = Math.min(run.limit, U32_MAX);
    words[STEP.ctx] = this.ctx;
    words[STEP.vocabUsed] = this.vocabUsed;
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
    this.#memory.stepWrite(0, words);
    this.#run++;
    this.#taken = 0;
  }

  /** The first token of the run will stand at `pos`. */
  firstAt(pos: number): void {
    this.#first = pos;
  }

  /** Token ids from `pos` on. */
  place(pos: number, ids: Uint32Array<ArrayBuffer>): void {
    this.#history.write(pos * 4, ids);
  }

  /** Drafts for the next round, behind the token at `pos`. */
  draft(pos: number, ids: readonly number[]): void {
    const n = Math.min(ids.length, DRAFTS_MAX, this.ctx - pos - 1);
    if (n > 0) this.place(pos + 1, Uint32Array.from(ids.slice(0, n)));
    this.write(STEP.drafts, Math.max(n, 0));
  }

  /** The drafts that stand behind the token at `pos`. */
  drafts(pos: number): Uint32Array<ArrayBuffer> {
    const n = Math.max(0, Math.min(this.read(STEP.drafts, 1)[0], DRAFTS_MAX, this.ctx - pos - 1));
    const out = new Uint32Array(n);
    if (n > 0) this.#history.read((pos + 1) * 4, out);
    return out;
  }

  /** Why the device stopped sampling. */
  halted(): HaltReason {
    const [halt] = this.read(STEP.halt, 1);
    return (Object.keys(HALT) as HaltReason[]).find((k) => HALT[k] === halt) ?? "running";
  }

  counts(): RoundCounts {
    const words = this.read(STEP.rounds, 3 + DRAFTS_MAX);
    const [rounds, drafted, accepted] = words;
    return { rounds, drafted, accepted, acceptedAt: [...words.subarray(3)] };
  }

  /** Tokens sampled since begin() that were not taken yet. */
  take(): Uint32Array {
    const [produced] = this.read(STEP.produced, 1), out: number[] = [];
    const buffer = new Uint32Array(256);
    // The newest stands in the step block too: where it is the only one, the history need not be asked.
    while (produced - this.#taken > 1) {
      const n = readRing(this.#memory, this.#history, this.#first, this.#taken, buffer);
      if (n === 0) break;
      out.push(...buffer.subarray(0, n));
      this.#taken += n;
    }
    // It has no place in the history when it was sampled for the position just behind the context.
    if (produced > this.#taken) {
      out.push(this.read(STEP.sampled, 1)[0]);
      this.#taken = produced;
    }
    return Uint32Array.from(out);
  }

  mark(pos: number): RunMark {
    const anchor = new Uint32Array(1), inside = pos < this.ctx;
    if (inside) this.#history.read(pos * 4, anchor);
    return {
      run: this.#run,
      first: this.#first,
      taken: this.#taken,
      produced: this.read(STEP.produced, 1)[0],
      anchor: inside ? anchor[0] : undefined,
    };
  }

  /** Back to a mark at `pos`; counts of tokens go back only where they are of the same run. */
  goBack(pos: number, mark: RunMark): void {
    this.write(STEP.pos, pos);
    this.write(STEP.halt, HALT.running);
    this.write(STEP.drafts, 0);
    if (mark.anchor !== undefined) {
      this.place(pos, Uint32Array.of(mark.anchor));
      this.write(STEP.sampled, mark.anchor);
    }
    if (mark.run !== this.#run) return;
    this.#first = mark.first;
    this.#taken = mark.taken;
    this.write(STEP.produced, mark.produced);
  }

  read(word: number, n: number): Uint32Array {
    const out = new Uint32Array(n);
    this.#memory.stepRead(word, out);
    return out;
  }

  write(word: number, value: number): void {
    this.#memory.stepWrite(word, Uint32Array.of(value));
  }

  get #memory(): Memory {
    return this.state.memory("step", STEP_WORDS * 4);
  }

  get #history(): Memory {
    return this.state.memory("history", this.ctx * 4);
  }
}
