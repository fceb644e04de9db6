/**
 * Drives a session through speculative rounds: asks the policy how many drafts, the drafter which, plays,
 * and tells both what came of it. Owns no memory and no tape; at every width the tokens, states and caches
 * are those of serial decode.
 */
import type { HaltReason } from "../../kernels/step.ts";
import type { Session } from "../session.ts";
import type { Drafter, DraftPolicy } from "./drafter.ts";

/** What rounds came to since begin(). */
export interface RoundsReport {
  readonly drafter: string;
  /** Plays that verified; single tokens are `serial`. */
  readonly rounds: number;
  readonly serial: number;
  readonly drafted: number;
  readonly accepted: number;
  /** How often the draft at each place of its round was accepted. */
  readonly acceptedAt: readonly number[];
}

export interface RoundsCall {
  readonly ids: Uint32Array;
  readonly halt: HaltReason;
}

export declare class Rounds {
  constructor(session: Session, drafter: Drafter, policy: DraftPolicy);
  /** A run begins: `prompt` is the whole timeline before the first sampled token. */
  begin(prompt: ArrayLike<number>): void;
  /** Drafts that the head is to leave behind the prompt: for Session.prefill. */
  get firstDrafts(): number;
  /** One call into the device, which makes about `tokens` tokens or more; gives what was sampled since the last. */
  next(tokens: number): Promise<RoundsCall>;
  get report(): RoundsReport;
}
