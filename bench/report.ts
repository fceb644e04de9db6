/**
 * What a report is: the schema `lapwing-report/1` and the types that follow from it. Owns names and
 * meanings of fields; reads and writes nothing, computes nothing. Readers ignore unknown fields.
 *
 * Times are integers in ns, sizes integers in bytes, rates per second. Nothing is NaN or Infinity: what
 * does not exist is null, and `absent` of its row says why, by the field's path.
 */
import * as v from "valibot";
import {
  envSchema,
  modelSchema,
  ROUTINGS,
  syntheticSchema,
  toolSchema,
} from "./report_identity.ts";
import { curveSchema, roundsSchema, specRunSchema, verifySweepSchema } from "./report_spec.ts";
import { count, finite, flags, positive, sha256, text } from "./report_values.ts";

export { ROUTINGS };

export const REPORT_SCHEMA = "lapwing-report/1";

export const ROW_KINDS = [
  "prefill",
  "decode",
  "prompt_decode",
  "verify",
  "speculate",
  "generate",
  "perplexity",
  "load",
] as const;
export const TOKEN_SOURCES = ["text", "random", "repeat"] as const;
export const KV_TYPES = ["f32", "f16", "bf16", "q8"] as const;
/** Why a row is not simply valid; the list is closed. */
export const VALIDITY_REASONS = [
  "first_sample_slow",
  "outliers",
  "clock_coarse",
  "thermal_drift",
  "battery",
  "dirty_build",
  "swap",
  "contention",
  "warm_prefix_cache",
] as const;

/** Everything that was asked for, after defaults. */
export const specSchema = v.object({
  model: text,
  synthetic: v.nullable(syntheticSchema),
  device: text,
  /** 0: as many as the process may use. */
  threads: v.array(count),
  kv: v.array(v.picklist(KV_TYPES)),
  /** Tokens of one prefill play. */
  prefill_rows: v.array(count),
  quantize: v.nullable(v.picklist([4, 8])),
  plan: flags,
  n_prompt: v.array(count),
  n_gen: v.array(count),
  /** Tokens of one native call of a decode. */
  call_tokens: v.optional(v.array(count), [32]),
  n_depth: v.array(count),
  prompt_gen: v.array(v.tuple([count, count])),
  verify_rows: v.array(count),
  /** Rounds of all these widths, and runs of rounds. */
  verify_sweep: v.optional(v.nullable(verifySweepSchema), null),
  /** Tokens of a long prefill and of the decode behind it. */
  long: v.nullable(v.tuple([count, count])),
  load: v.boolean(),
  perplexity: v.nullable(v.object({ file: text, window: count, tokens: v.nullable(count) })),
  tokens: v.picklist(TOKEN_SOURCES),
  text_file: v.nullable(text),
  seed: count,
  repetitions: count,
  min_time_ns: count,
  warmup: count,
  token_times: v.boolean(),
});

const paramsSchema = v.object({
  n_prompt: count,
  n_gen: count,
  /** decode: tokens of one native call; null elsewhere. */
  call_tokens: v.optional(v.nullable(count), null),
  n_depth: count,
  /** Tokens of one verification; null elsewhere. */
  rows: v.nullable(count),
  gamma: v.nullable(count),
  kv_type: v.picklist(KV_TYPES),
  prefill_rows: count,
  threads: count,
  seed: count,
  prompt_sha256: v.nullable(sha256),
  tokens: v.picklist(TOKEN_SOURCES),
});

/** Summaries; every one can be computed again from the row's raw times. */
const statsSchema = v.object({
  n: count,
  median_ns: count,
  median_tps: v.nullable(positive),
  mean_tps: v.nullable(positive),
  ci95: v.nullable(v.tuple([positive, positive])),
  /** Median absolute deviation of the rates, percent of their median. */
  mad_pct: v.nullable(positive),
  min: v.nullable(positive),
  max: v.nullable(positive),
  outliers: count,
  /** Rate behind the first 32 tokens of each sample; rates of the first and of the last 32. */
  steady_tps: v.nullable(positive),
  first32_tps: v.nullable(positive),
  last32_tps: v.nullable(positive),
  /** Change of the rate from the first to the last sample by the median slope. */
  drift_pct: v.nullable(finite),
});

const limitSchema = v.object({
  bytes_per_token: v.object({ weights: positive, kv: positive, state: positive }),
  flops_per_token: positive,
  gb_s: v.nullable(positive),
  /** Bytes that one play touches, and the read bandwidth measured over so many. */
  working_set_bytes: count,
  measured_gb_s: v.nullable(positive),
  pct_of_measured_bw: v.nullable(positive),
  tps_limit: v.nullable(positive),
  ms_lost_per_token: v.nullable(finite),
});

const dispatchSchema = v.object({
  /** Rows of the play that is described. */
  rows: count,
  records: count,
  waits: count,
  kernels: v.array(v.object({ name: text, count })),
  encode_ns: count,
  device_ns: v.nullable(count),
  gap_ns: v.nullable(count),
  plan: flags,
  tape_sha256: sha256,
});

const checkSchema = v.object({
  /** Of the token ids that came out, as little-endian u32. */
  output_sha256: v.nullable(sha256),
  /** What the output was held against: `one_row` is the model fed token by token. */
  reference: v.nullable(v.picklist(["one_row", "serial", "stored"])),
  compared_tokens: count,
  matched_tokens: count,
  first_divergence: v.nullable(count),
  max_logit_nmse: v.nullable(positive),
  /** The same distance between the plan and exact activations: bounds the one above. */
  rounding_nmse: v.optional(v.nullable(positive), null),
  /** Share of experts that both forms choose, with all choices before them made equal. */
  routing_match: v.optional(v.nullable(positive), null),
  /** All samples of the row gave one digest; null with a single sample. */
  repeatable: v.nullable(v.boolean()),
  ok: v.boolean(),
});

/** Decodes of the same tokens in calls of several lengths: what they differ by is the host's time of a call. */
const callCostSchema = v.object({
  n_gen: count,
  n_depth: count,
  points: v.array(v.object({
    row: text,
    call_tokens: count,
    calls: count,
    median_ns: count,
  })),
  host_ns_per_call: finite,
  /** Of the intervals of both rows at their worst; null where one of them has none. */
  ci95: v.nullable(v.tuple([finite, finite])),
});

export const rowSchema = v.object({
  id: text,
  kind: v.picklist(ROW_KINDS),
  params: paramsSchema,
  status: v.picklist(["ok", "error", "skipped"]),
  error: v.optional(text),
  validity: v.object({
    verdict: v.picklist(["valid", "suspect", "invalid"]),
    reasons: v.array(v.picklist(VALIDITY_REASONS)),
  }),
  samples_ns: v.array(count),
  tokens_per_sample: count,
  /** Times of single tokens, a list a sample, where they were asked for. */
  per_token_ns: v.optional(v.array(v.array(count))),
  /** The calls that a sample consists of: tokens of each, and their times in each sample. */
  calls: v.nullable(v.object({ tokens: v.array(count), ns: v.array(v.array(count)) })),
  /** prompt_decode: its two parts, sample by sample; decode_intervals gaps lie between the tokens. */
  parts: v.nullable(v.object({
    prefill_ns: v.array(count),
    decode_ns: v.array(count),
    decode_intervals: count,
  })),
  /** Untimed runs before the samples; the first of them is the cold one. */
  warmup_ns: v.array(count),
  /** Tokens of each of them: fewer than of a sample where that is long. */
  warmup_tokens: count,
  /** Place of each sample among all samples of the run, and its begin after the run's. */
  order_index: v.array(count),
  started_offset_ns: v.array(count),
  stats: v.nullable(statsSchema),
  ttft_ns: v.nullable(count),
  /** Prompt tokens that were not computed because a cache held them. */
  cached_tokens: count,
  memory: v.nullable(v.object({
    weights: count,
    kv: count,
    state: count,
    scratch: count,
    /** High water mark of what is allocated on the device, with the weights. */
    device_peak: v.nullable(count),
    /** High water mark of this process, and what it had before the model was opened. */
    peak: v.nullable(count),
    baseline: v.nullable(count),
    forecast: count,
  })),
  energy: v.nullable(v.object({
    joules: positive,
    j_per_token: v.nullable(positive),
    avg_w: positive,
    source: v.picklist(["rapl", "nvml", "powermetrics"]),
  })),
  limit: v.nullable(limitSchema),
  dispatch: v.nullable(dispatchSchema),
  moe: v.nullable(v.object({
    /** Experts that the rows of one play use in a layer, mean over layers. */
    distinct_experts_mean: positive,
    /** Uses of the busiest expert over the mean of all, mean over layers. */
    imbalance: positive,
    sampled_tokens: count,
  })),
  spec: v.nullable(specRunSchema),
  rounds: v.optional(v.nullable(roundsSchema), null),
  /** load: what was copied onto a device with memory of its own, and the time of that alone in each sample. */
  copy: v.optional(
    v.nullable(v.object({
      bytes: count,
      ns: v.array(count),
      gb_s: v.nullable(positive),
      /** Fastest copying of pinned memory in the same run, and how much of it loading reached. */
      limit_gb_s: v.optional(v.nullable(positive), null),
      pct_of_limit: v.optional(v.nullable(positive), null),
    })),
    null,
  ),
  quality: v.nullable(v.object({ nll: positive, perplexity: positive, predictions: count })),
  check: checkSchema,
  absent: v.record(text, text),
});

/** The document but for its rows: the first line of a JSONL report, whose other lines are rows. */
export const headSchema = v.object({
  schema: v.literal(REPORT_SCHEMA),
  run_id: text,
  started_at: v.pipe(text, v.isoTimestamp()),
  tool: toolSchema,
  argv: v.array(text),
  spec: specSchema,
  env: envSchema,
  model: v.nullable(modelSchema),
});

export const reportSchema = v.object({
  ...headSchema.entries,
  rows: v.array(rowSchema),
  /** What rows of rounds come to, place by place: computed from them. */
  verify_curves: v.optional(v.array(curveSchema)),
  /** What a native call costs beside its tokens, place by place: computed from rows of several call lengths. */
  call_costs: v.optional(v.array(callCostSchema)),
  /** Verdicts of `gate`, where it wrote its own report. */
  gate: v.optional(v.unknown()),
});

export type Report = v.InferOutput<typeof reportSchema>;
export type ReportHead = v.InferOutput<typeof headSchema>;
export type Row = v.InferOutput<typeof rowSchema>;
export type RowKind = Row["kind"];
export type RowParams = Row["params"];
export type RowStats = NonNullable<Row["stats"]>;
export type RowLimit = NonNullable<Row["limit"]>;
export type RowCheck = Row["check"];
export type RowMemory = NonNullable<Row["memory"]>;
export type Dispatch = NonNullable<Row["dispatch"]>;
export type Energy = NonNullable<Row["energy"]>;
export type KvType = RowParams["kv_type"];
export type Rounds = NonNullable<Row["rounds"]>;
export type SpecRun = NonNullable<Row["spec"]>;
export type CallCost = v.InferOutput<typeof callCostSchema>;
export type Curve = NonNullable<Report["verify_curves"]>[number];
export type VerifySweep = NonNullable<Spec["verify_sweep"]>;
export type Validity = Row["validity"];
export type ValidityReason = Validity["reasons"][number];
export type Spec = v.InferOutput<typeof specSchema>;
export type Environment = v.InferOutput<typeof envSchema>;
export type ModelIdentity = v.InferOutput<typeof modelSchema>;

/** Whether a row's numbers may be compared, exported or gated. */
export function isComparable(row: Row): boolean {
  return row.status === "ok" && row.check.ok && row.validity.verdict !== "invalid";
}
