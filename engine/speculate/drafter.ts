/**
 * What proposes the tokens that a speculative round verifies, and what decides how many of them: two
 * interfaces and the figures that pass between them. Knows no session and no model.
 */

/** Tokens that may follow a timeline. */
export interface Draft {
  readonly ids: readonly number[];
  /**
   * Which draft each one follows, -1 being the timeline's last token; absent where each follows the one
   * before it. Rounds verify chains only and refuse the rest: a recurrent state has no branches.
   */
  readonly parents?: readonly number[];
  /**
   * How likely the drafter held each id, where it drew them; absent where it is sure of its choice. Rounds
   * accept by comparing a draft with the model's own sample, which is lossless for drafts without these.
   */
  readonly probabilities?: readonly number[];
}

export const NO_DRAFT: Draft = { ids: [] };

/** What a round made of a draft. */
export interface RoundOutcome {
  readonly drafted: number;
  readonly accepted: number;
}

export interface Drafter {
  readonly name: string;
  /** The model's own head drafts inside the round's tape: propose() is never asked, rounds chain. */
  readonly onDevice: boolean;
  /**
   * At most `room` tokens to follow `tokens`, the whole timeline with its last token. From call to call
   * the timeline only grows, until begin().
   */
  propose(tokens: ArrayLike<number>, room: number): Draft;
  /** Told after each round that verified a draft of propose(). */
  observe(outcome: RoundOutcome): void;
  /** Forgets the timeline: another one begins. */
  begin(): void;
}

/** What one call into the device did, for the policy. */
export interface CallOutcome {
  /** Plays of the call: rounds, or single tokens where `rows` is 1. */
  readonly rounds: number;
  /** Rows of each play: the most drafts that one could verify, and one. */
  readonly rows: number;
  /** Tokens made. */
  readonly tokens: number;
  readonly drafted: number;
  readonly accepted: number;
  /** How often the draft at each place of its round was accepted, in this call. */
  readonly acceptedAt: readonly number[];
  /** Drafts that the model's head left for the next call. */
  readonly standing?: number;
  /** Time of the whole call, host work included. */
  readonly ns: number;
}

/** Decides how many drafts a round takes. */
export interface DraftPolicy {
  /** Drafts of each round of the next call, 0 to DRAFTS_MAX; 0 plays single tokens. */
  drafts(): number;
  /** Whose, where there are several: the place of the drafter. */
  drafter?(): number;
  /** Tokens after which drafts() may say something else: the next call should not make many more. */
  callTokens?(): number;
  /** Told after each call. */
  observe(call: CallOutcome): void;
}

/** The same number of drafts in every round. */
export function fixedDrafts(drafts: number): DraftPolicy {
  return { drafts: () => drafts, observe: () => {} };
}
