/**
 * The part of a report that says what was measured: this program, the machine, the model. Owns names and meanings
 * of fields, as report.ts does.
 */
import * as v from "valibot";
import { count, positive, sha256, text } from "./report_values.ts";

export const ROUTINGS = ["model", "uniform", "zipf"] as const;

/** Random weights: what they were made from. */
export const syntheticSchema = v.object({
  seed: count,
  layers: v.nullable(count),
  experts: v.nullable(count),
  vocab: v.nullable(count),
  routing: v.picklist(ROUTINGS),
});

export const toolSchema = v.object({
  version: text,
  commit: v.nullable(text),
  dirty: v.nullable(v.boolean()),
  /** What to know about every figure of the project. */
  caveat: v.optional(text),
});

export const envSchema = v.object({
  os: text,
  kernel: text,
  machine: text,
  cpu: text,
  gpus: v.array(v.object({
    name: text,
    driver: v.nullable(text),
    bw_measured_gb_s: v.nullable(positive),
    power_limit_w: v.nullable(positive),
  })),
  mem_bytes: count,
  mem_available_bytes: count,
  power_source: v.nullable(v.picklist(["mains", "battery"])),
  low_power: v.nullable(v.boolean()),
  governor: v.nullable(text),
  /** Load averages over 1, 5 and 15 minutes, before anything ran. */
  load_before: v.array(positive),
  library: v.object({
    path: text,
    sha256: v.nullable(sha256),
    backend: text,
    isa: text,
    threads: count,
  }),
  /** Reading and copying memory far larger than the caches, with the threads of the run. */
  read_gb_s: v.nullable(positive),
  copy_gb_s: v.nullable(positive),
  deno_version: text,
});

export const modelSchema = v.object({
  alias: v.nullable(text),
  path: v.nullable(text),
  format: text,
  arch: text,
  quant: text,
  bytes_total: count,
  params_total: count,
  params_active: count,
  weights_sha256_16: v.nullable(v.pipe(text, v.regex(/^[0-9a-f]{16}$/))),
  tokenizer_sha256: v.nullable(sha256),
  synthetic: v.boolean(),
});
