/**
 * The two things that a comparison measures, and what surrounds a measurement, as interfaces: real ones
 * live in worker processes (worker_client.ts), scripted ones in tests. Runs nothing.
 */
import type { Clock } from "./port.ts";

export type Side = "base" | "head";

/** One row of a suite: what a sample runs, and how long it must be. */
export interface Workload {
  readonly id: string;
  readonly kind: "decode" | "prefill";
  /** Tokens of one repetition: decoded, or of the prompt that is run. */
  readonly tokens: number;
  /** Tokens in the caches before each repetition. */
  readonly depth: number;
  readonly sampleNsMin: number;
  readonly stepsMin: number;
}

export interface Sample {
  /** Time of exactly the steps counted; going back to the filled state is not in it. */
  readonly ns: number;
  readonly steps: number;
  /** sha256 of the token ids of one repetition; all repetitions gave the same. */
  readonly digest: string;
}

/** A library with its program, opened on a model. */
export interface Subject {
  readonly side: Side;
  /** sha256 over the greedy tokens behind fixed prompts. */
  outputs(): Promise<string>;
  /** Fills the caches for a workload; samples go back to that state. */
  prepare(workload: Workload): Promise<void>;
  sample(workload: Workload, repeats: number): Promise<Sample>;
}

/** A subject that failed: crashed, hung or reported an error. Ends a row, not the session. */
export class SubjectError extends Error {
  override readonly name = "SubjectError";
  constructor(readonly side: Side, message: string) {
    super(message);
  }
}

/** Signs that something else disturbed a pair, since they were last read; null where unknown. */
export interface Disturbance {
  readonly throttled: boolean | null;
  readonly page_outs: number | null;
  readonly gpu_contended: boolean | null;
}

/** The machine around the subjects. */
export interface Surroundings {
  readonly clock: Clock;
  sleep(ms: number): Promise<void>;
  /** Bytes a second of a memory copy that lasts about 50 ms and touches no subject. */
  anchor(): Promise<number>;
  disturbance(): Promise<Disturbance>;
  readonly signal?: AbortSignal;
}
