/** Comparisons and reports as a run would have written them, from a scripted machine or from bare rates. */
import { compareSession } from "../../bench/compare.ts";
import {
  COMPARE_SCHEMA,
  type CompareSettings,
  type Comparison,
  type NoiseProfile,
} from "../../bench/compare_report.ts";
import { fingerprintOf } from "../../bench/fingerprint.ts";
import { type Environment, type Report, REPORT_SCHEMA, type Row } from "../../bench/report.ts";
import { bootstrapMedianCi, median } from "../../bench/stats.ts";
import type { Workload } from "../../bench/subject.ts";
import { DECODE, machine, type Script, settings } from "./scripted.ts";
import { specWith } from "./spec.ts";

export const SHA = "a".repeat(64);

export function environment(given: Partial<Environment> = {}): Environment {
  return {
    os: "linux",
    kernel: "6.1.0",
    machine: "Desk (x86_64)",
    cpu: "Some CPU 9000",
    gpus: [],
    mem_bytes: 16e9,
    mem_available_bytes: 12e9,
    power_source: "mains",
    low_power: false,
    governor: "performance",
    load_before: [0, 0, 0],
    library: { path: "/lib/liblapwing.so", sha256: SHA, backend: "cpu", isa: "avx2", threads: 4 },
    read_gb_s: 40,
    copy_gb_s: 20,
    deno_version: "2.9.6",
    ...given,
  };
}

export interface ComparisonOptions {
  readonly script?: Script;
  readonly settings?: Partial<CompareSettings>;
  readonly env?: Partial<Environment>;
  readonly noise?: NoiseProfile["rows"];
  readonly program?: string;
  readonly workloads?: readonly Workload[];
}

export async function comparison(options: ComparisonOptions = {}): Promise<Comparison> {
  const m = machine({ hits: 0, noise: 0.002, ...options.script });
  const s = settings({ resamples: 2000, ...options.settings });
  const result = await compareSession(m.base, m.head, options.workloads ?? [DECODE], s, m);
  const env = environment(options.env);
  const fingerprint = fingerprintOf({ env, ...s });
  const side = (name: string, sha256: string, program: string | null) => ({
    kind: "ref" as const,
    name,
    commit: name.repeat(10).slice(0, 40),
    library: { path: `/${name}/liblapwing.so`, sha256 },
    program,
  });
  return {
    schema: COMPARE_SCHEMA,
    run_id: "run",
    started_at: "2026-11-30T00:00:00.000Z",
    tool: { version: "0.1.0", commit: "c".repeat(40), dirty: false },
    argv: ["compare"],
    settings: s,
    env,
    model: null,
    fingerprint,
    base: side("main", SHA, "old"),
    head: side("head", "b".repeat(64), options.program ?? "new"),
    noise: options.noise === undefined ? null : {
      schema: "lapwing-noise/1",
      fingerprint,
      machine: "Some CPU 9000",
      measured_at: "2026-11-01T00:00:00.000Z",
      confidence: 0.95,
      rows: options.noise,
    },
    warnings: [],
    ...result,
  };
}

/** What a decode row says beside its name and its times. */
const PLAIN: Omit<Row, "id" | "kind" | "params" | "samples_ns" | "tokens_per_sample" | "stats"> = {
  status: "ok",
  validity: { verdict: "valid", reasons: [] },
  calls: null,
  parts: null,
  warmup_ns: [],
  warmup_tokens: 0,
  order_index: [],
  started_offset_ns: [],
  ttft_ns: null,
  cached_tokens: 0,
  memory: null,
  energy: null,
  limit: null,
  dispatch: {
    rows: 1,
    records: 310,
    waits: 200,
    kernels: [],
    encode_ns: 1,
    device_ns: null,
    gap_ns: null,
    plan: {},
    tape_sha256: SHA,
  },
  moe: null,
  spec: null,
  copy: null,
  rounds: null,
  quality: null,
  check: {
    output_sha256: SHA,
    reference: "one_row",
    compared_tokens: 17,
    matched_tokens: 17,
    first_divergence: null,
    max_logit_nmse: 1e-9,
    rounding_nmse: null,
    routing_match: null,
    repeatable: true,
    ok: true,
  },
  absent: {},
};

const KIND = /^(decode|prefill)(\d+)@d(\d+)$/;

/** A row of these rates, one sample each. */
export function row(id: string, rates: readonly number[], given: Partial<Row> = {}): Row {
  const [, kind, tokens, depth] = KIND.exec(id)!;
  const n = Number(tokens);
  return {
    ...PLAIN,
    id,
    kind: kind as "decode" | "prefill",
    params: {
      n_prompt: kind === "prefill" ? n : 0,
      n_gen: kind === "decode" ? n : 0,
      call_tokens: null,
      n_depth: Number(depth),
      rows: null,
      gamma: null,
      kv_type: "f16",
      prefill_rows: 512,
      threads: 4,
      seed: 0,
      prompt_sha256: SHA,
      tokens: "random",
    },
    samples_ns: rates.map((r) => r > 0 ? Math.round(1e9 * n / r) : 0),
    tokens_per_sample: n,
    stats: stats(rates, n),
    ...given,
  };
}

function stats(rates: readonly number[], tokens: number): Row["stats"] {
  const ci = bootstrapMedianCi(rates, { confidence: 0.95, resamples: 1000, seed: 1 });
  return {
    n: rates.length,
    median_ns: Math.round(1e9 * tokens / Math.max(1, median([...rates]))),
    median_tps: median([...rates]),
    mean_tps: null,
    ci95: ci && [ci.lo, ci.hi],
    mad_pct: null,
    min: Math.min(...rates),
    max: Math.max(...rates),
    outliers: 0,
    steady_tps: null,
    first32_tps: null,
    last32_tps: null,
    drift_pct: null,
  };
}

export function report(rows: readonly Row[], given: Partial<Report> = {}): Report {
  return {
    schema: REPORT_SCHEMA,
    run_id: "run",
    started_at: "2026-11-30T00:00:00.000Z",
    tool: { version: "0.1.0", commit: "c".repeat(40), dirty: false },
    argv: ["bench"],
    spec: specWith({ model: "tiny", threads: [4], n_gen: [128] }),
    env: environment(),
    model: null,
    rows: [...rows],
    ...given,
  };
}

/** So many rates around a value. */
export function rates(center: number, n = 10, spread = 0.002): number[] {
  return Array.from({ length: n }, (_, i) => center * (1 + spread * ((i % 5) - 2)));
}
