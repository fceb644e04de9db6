/**
 * What measurement needs from an engine, and from a clock: small enough that a test can stand in for
 * both. bench/live.ts implements the engine over a session; nothing here runs.
 */

/** Nanoseconds of a monotonic clock. */
export interface Clock {
  now(): bigint;
}

/** What came out since the last restore(): enough to tell whether two runs did the same. */
export interface Produced {
  readonly tokens: number;
  /** sha256 of the token ids as little-endian u32, hex. */
  readonly digest: string;
}

/**
 * One model on one device with one timeline. It reads no clock: callers do, around calls, and every call
 * has finished its work when its promise resolves.
 */
export interface TimedEngine extends Disposable {
  /** Fills the timeline with the first `depth` tokens of the prompt and remembers that state. */
  fill(depth: number, signal?: AbortSignal): Promise<void>;
  /** Back to the filled state; throws unless its recurrent state has the hash that fill() saw. */
  restore(): Promise<void>;
  /** Runs the next `tokens` prompt tokens and samples the token behind them. */
  prefill(tokens: number, signal?: AbortSignal): Promise<void>;
  /** Decodes `tokens` greedy tokens in one call; each is computed from the one before it. */
  decode(tokens: number): Promise<void>;
  /** Verifies `rows` prompt tokens in one play: logits of every row. */
  verify(rows: number): Promise<void>;
  /** What came out since restore(). */
  produced(): Promise<Produced>;
}
