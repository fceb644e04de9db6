/**
 * The step block: the words of device memory through which a playing tape knows where it is. It is a
 * plain u32 tensor `[STEP_WORDS]` of every tape that runs a model; f32 fields are stored as their bits.
 * Beside it stands `history`, u32 `[ctx]`: the token id at each position, which rows read as input and
 * into which the sampled token goes back.
 */

export const STEP_WORDS = 64;
export const STOPS_MAX = 24;
export const DRAFTS_MAX = 15;

/** Word index of each field. */
export const STEP = {
  /** Tokens already in the caches: the position of row 0 of the next play. */
  pos: 0,
  /** 0: go on; else why the run ended (HALT). Players stop replaying when it is set. */
  halt: 1,
  /** Tokens sampled since the host last reset it. */
  produced: 2,
  /** Tokens that may be produced before the run halts. */
  limit: 3,
  /** Positions allocated. */
  ctx: 4,
  /** Token ids at or above this are padding and never sampled. */
  vocabUsed: 5,
  seedLo: 6,
  seedHi: 7,
  /** f32; 0 means greedy. */
  temperature: 8,
  /** 0 means all. */
  topK: 9,
  /** f32; 1 means all. */
  topP: 10,
  /** f32; 0 means all. */
  minP: 11,
  /** f32; 1 means none. */
  repeatPenalty: 12,
  /** How many of the latest tokens the penalty looks at. */
  repeatWindow: 13,
  stops: 14,
  /** The token that the last play sampled. */
  sampled: 15,
  /** First of STOPS_MAX stop ids. */
  stopIds: 16,
  /** Draft tokens that stand in `history` behind the position, for the next round to verify. */
  drafts: 40,
  /** Rows of the last round that its tokens made final: as many as it produced. */
  committed: 41,
  /** Since the host last reset them: rounds, draft tokens verified, and those accepted. */
  rounds: 42,
  drafted: 43,
  accepted: 44,
  /** First of DRAFTS_MAX counts: how often the draft at this place of its round was accepted. */
  acceptedAt: 45,
} as const;

export const HALT = { running: 0, stopToken: 1, budget: 2, contextFull: 3 } as const;
export type HaltReason = keyof typeof HALT;

/**
 * Keys that one partial of decode attention covers: block b holds positions b * ATTN_BLOCK and up.
 * Every decode form walks the same blocks and merges them in order, so a row's bits depend on its own
 * position alone, not on the context bucket or on the rows beside it.
 */
export const ATTN_BLOCK = 256;
