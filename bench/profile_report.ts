/**
 * What a profile is: the schema `lapwing-profile/1` and the types that follow from it. Records are the truth;
 * groups, sums and the gap can be computed again from them.
 */
import * as v from "valibot";
import { PARTS } from "./record_places.ts";
import { KV_TYPES } from "./report.ts";
import { envSchema, modelSchema, syntheticSchema, toolSchema } from "./report_identity.ts";
import { count, finite, flags, positive, sha256, text } from "./report_values.ts";

export const PROFILE_SCHEMA = "lapwing-profile/1";
export const PHASES = ["decode", "prefill", "verify"] as const;

const specSchema = v.object({
  model: text,
  synthetic: v.nullable(syntheticSchema),
  device: text,
  threads: count,
  quantize: v.nullable(v.picklist([4, 8])),
  plan: flags,
  phase: v.picklist(PHASES),
  rows: count,
  n_depth: count,
  kv: v.picklist(KV_TYPES),
  ctx: count,
  repetitions: count,
});

const bytesSchema = v.object({ weights: positive, kv: positive, state: positive });

const recordSchema = v.object({
  op: text,
  kernel: text,
  part: v.picklist(PARTS),
  layer: v.nullable(count),
  /** Whether it waits for records before it. */
  waits: v.boolean(),
  /** Median over the repetitions. */
  ns: positive,
  bytes: bytesSchema,
  flops: positive,
});

/** Records of one op, layer or part. */
const groupSchema = v.object({
  name: text,
  records: count,
  ns: positive,
  /** Percent of the sum of all records. */
  share_pct: positive,
  bytes: positive,
  flops: positive,
  /** Null where no byte crosses the memory, or no time was seen. */
  gb_s: v.nullable(positive),
  /** Of the read bandwidth measured in the same run. Small records may read from a cache, and pass 100. */
  pct_of_measured_bw: v.nullable(positive),
  tflop_s: v.nullable(positive),
});

export const profileSchema = v.object({
  schema: v.literal(PROFILE_SCHEMA),
  started_at: v.pipe(text, v.isoTimestamp()),
  tool: toolSchema,
  argv: v.array(text),
  spec: specSchema,
  env: envSchema,
  model: modelSchema,
  tape_sha256: sha256,
  /** Bytes that the play touches, and the read bandwidth measured over so many. */
  working_set_bytes: count,
  measured_gb_s: positive,
  records: v.array(recordSchema),
  by_op: v.array(groupSchema),
  by_layer: v.array(groupSchema),
  by_part: v.array(groupSchema),
  sum_ns: positive,
  /** The same play without profiling, by the host's clock around calls of several plays. */
  step: v.object({ ns: positive, plays_per_call: count, calls_ns: v.array(count) }),
  /** What a step takes beyond the sum of its records; negative where records timed apart take longer. */
  gap_ns: finite,
  gap_pct: finite,
});

export type Profile = v.InferOutput<typeof profileSchema>;
export type ProfileSpec = Profile["spec"];
export type ProfiledRecord = Profile["records"][number];
export type ProfileGroup = Profile["by_op"][number];
