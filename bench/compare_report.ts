/**
 * The result of a comparison as a file: schema `lapwing-compare/1` and its types. Pairs are the truth; every
 * estimate can be computed from them again. Owns names and meanings; measures and judges nothing. Readers
 * ignore unknown fields.
 */
import * as v from "valibot";
import { ORDERS, REJECT_REASONS } from "./pairs.ts";
import { headSchema, specSchema } from "./report.ts";
import { OUTCOMES } from "./verdict.ts";

export const COMPARE_SCHEMA = "lapwing-compare/1";

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const positive = v.pipe(v.number(), v.finite(), v.minValue(0));
const text = v.string();

export const SUBJECT_KINDS = ["library", "ref", "report"] as const;

const subjectSchema = v.object({
  kind: v.picklist(SUBJECT_KINDS),
  /** As it was given. */
  name: text,
  commit: v.nullable(text),
  library: v.nullable(v.object({ path: text, sha256: text })),
  /** Identity of everything that decides what runs; null: files that no commit has. */
  program: v.nullable(text),
});

const disturbanceSchema = v.object({
  throttled: v.nullable(v.boolean()),
  page_outs: v.nullable(count),
  gpu_contended: v.nullable(v.boolean()),
});

export const pairSchema = v.object({
  index: count,
  block: count,
  order: v.picklist(["AB", "BA"]),
  steps: count,
  base_ns: count,
  head_ns: count,
  anchor: positive,
  anchor_pauses: count,
  disturbance: disturbanceSchema,
  rejected: v.nullable(v.picklist(REJECT_REASONS)),
});

export const estimateSchema = v.object({
  pairs: count,
  ratio: positive,
  ci: v.tuple([positive, positive]),
  hodges_lehmann: positive,
  sign_p: positive,
  p_slower: positive,
  p_held: positive,
  mde: positive,
  sigma: positive,
});

/** `incomparable`: the outputs differ. `error`: there is no measurement. */
export const ROW_OUTCOMES = [...OUTCOMES, "incomparable", "error"] as const;

const compareRowSchema = v.object({
  id: text,
  kind: text,
  tokens: count,
  depth: count,
  status: v.picklist(["ok", "error"]),
  error: v.optional(text),
  /** sha256 of the tokens of one repetition. */
  outputs: v.nullable(v.object({ base: text, head: text, equal: v.boolean() })),
  repeats: count,
  settling: v.nullable(v.object({ pairs: count, settled: v.boolean(), rates: v.array(positive) })),
  /** Median of the session's anchors that the pairs were held against, bytes a second. */
  anchor_median: v.nullable(positive),
  pairs: v.array(pairSchema),
  /** Stored reports: each side's samples, which are not pairs. */
  unpaired: v.nullable(v.object({
    base_ns: v.array(count),
    head_ns: v.array(count),
    base_steps: count,
    head_steps: count,
  })),
  estimate: v.nullable(estimateSchema),
  outcome: v.picklist(ROW_OUTCOMES),
  why: text,
});

const noiseRowSchema = v.object({
  id: text,
  pairs: count,
  /** Robust standard deviation of a pair's log ratio with nothing changed. */
  sigma: positive,
  /** Half the width of the interval of the ratio. */
  half_width: positive,
});

/** What the same build twice shows on one machine. */
export const noiseSchema = v.object({
  schema: v.literal("lapwing-noise/1"),
  fingerprint: text,
  machine: text,
  measured_at: text,
  confidence: positive,
  rows: v.array(noiseRowSchema),
});

export const settingsSchema = v.object({
  model: text,
  synthetic: specSchema.entries.synthetic,
  device: text,
  threads: v.nullable(count),
  kv: text,
  quantize: v.nullable(count),
  plan: v.record(text, v.boolean()),
  suite: text,
  aa: v.boolean(),
  pairs: count,
  min_pairs: count,
  looks: v.array(count),
  max_seconds: positive,
  tolerance: positive,
  confidence: positive,
  order: v.picklist(ORDERS),
  resamples: count,
  seed: count,
  anchor_limit: positive,
  rejected_max: positive,
  /** Why changed output was allowed; null: it was not. */
  output_change: v.nullable(text),
});

export const compareSchema = v.object({
  schema: v.literal(COMPARE_SCHEMA),
  run_id: text,
  started_at: v.pipe(text, v.isoTimestamp()),
  tool: headSchema.entries.tool,
  argv: v.array(text),
  settings: settingsSchema,
  env: headSchema.entries.env,
  model: headSchema.entries.model,
  fingerprint: text,
  base: subjectSchema,
  head: subjectSchema,
  /** Digests of what both make of fixed prompts; null where stored reports were compared. */
  outputs: v.nullable(v.object({ base: text, head: text, equal: v.boolean() })),
  noise: v.nullable(noiseSchema),
  warnings: v.array(text),
  session: v.object({
    valid: v.boolean(),
    reasons: v.array(text),
    pairs: count,
    rejected: count,
    interrupted: v.boolean(),
  }),
  rows: v.array(compareRowSchema),
});

export type Comparison = v.InferOutput<typeof compareSchema>;
export type CompareRow = v.InferOutput<typeof compareRowSchema>;
export type CompareSettings = v.InferOutput<typeof settingsSchema>;
export type SubjectIdentity = v.InferOutput<typeof subjectSchema>;
export type SessionSummary = Comparison["session"];
export type NoiseProfile = v.InferOutput<typeof noiseSchema>;
export type RowOutcome = CompareRow["outcome"];
