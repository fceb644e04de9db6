/**
 * Measurements of other programs as a report: what they tell is kept, what they do not is null. No such row
 * has passed checks, so none counts as comparable.
 */
import { statsOf } from "../figures.ts";
import {
  KV_TYPES,
  type KvType,
  type Report,
  REPORT_SCHEMA,
  type Row,
  type Spec,
} from "../report.ts";

export interface ImportedRow {
  readonly kind: "prefill" | "decode" | "prompt_decode";
  readonly prompt: number;
  readonly gen: number;
  readonly depth: number;
  readonly samplesNs: readonly number[];
  /** Tokens whose time each sample is. */
  readonly tokens: number;
  readonly kv?: string;
  readonly prefillRows?: number;
  readonly threads?: number;
  readonly tokenSource: Spec["tokens"];
  readonly ttftNs?: number;
  readonly peakBytes?: number;
}

export interface Imported {
  readonly from: string;
  readonly version: string;
  readonly startedAt?: string;
  readonly model: string;
  readonly quant?: string;
  readonly modelBytes?: number;
  readonly params?: number;
  readonly cpu?: string;
  readonly gpu?: string;
  readonly backend?: string;
  readonly rows: readonly ImportedRow[];
}

const NEVER = "1970-01-01T00:00:00Z";

export function importedReport(given: Imported): Report {
  const rows = given.rows.map((row) => reportRow(given, row));
  return {
    schema: REPORT_SCHEMA,
    run_id: `imported:${given.from}`,
    started_at: validTime(given.startedAt) ?? NEVER,
    tool: { version: `${given.from} ${given.version}`, commit: null, dirty: null },
    argv: [],
    spec: importedSpec(given),
    env: {
      os: "unknown",
      kernel: "unknown",
      machine: "unknown",
      cpu: given.cpu ?? "unknown",
      gpus: given.gpu
        ? [{ name: given.gpu, driver: null, bw_measured_gb_s: null, power_limit_w: null }]
        : [],
      mem_bytes: 0,
      mem_available_bytes: 0,
      power_source: null,
      low_power: null,
      governor: null,
      load_before: [],
      library: {
        path: given.from,
        sha256: null,
        backend: given.backend ?? "unknown",
        isa: "",
        threads: given.rows[0]?.threads ?? 0,
      },
      read_gb_s: null,
      copy_gb_s: null,
      deno_version: "none",
    },
    model: {
      alias: null,
      path: given.model,
      format: "unknown",
      arch: "unknown",
      quant: given.quant ?? "unknown",
      bytes_total: given.modelBytes ?? 0,
      params_total: given.params ?? 0,
      params_active: 0,
      weights_sha256_16: null,
      tokenizer_sha256: null,
      synthetic: false,
    },
    rows,
  };
}

function validTime(text: string | undefined): string | undefined {
  if (text === undefined || Number.isNaN(Date.parse(text))) return undefined;
  return new Date(text).toISOString();
}

function importedSpec({ model, rows, backend }: Imported): Spec {
  const all = <T>(of: (row: ImportedRow) => T) => [...new Set(rows.map(of))];
  return {
    model,
    synthetic: null,
    device: backend ?? "unknown",
    threads: all((r) => r.threads ?? 0),
    kv: all((r) => kvType(r.kv)),
    prefill_rows: all((r) => r.prefillRows ?? 0),
    quantize: null,
    plan: {},
    n_prompt: all((r) => r.prompt),
    n_gen: all((r) => r.gen),
    call_tokens: [],
    n_depth: all((r) => r.depth),
    prompt_gen: [],
    verify_rows: [],
    verify_sweep: null,
    long: null,
    load: false,
    perplexity: null,
    tokens: rows[0]?.tokenSource ?? "random",
    text_file: null,
    seed: 0,
    repetitions: Math.max(0, ...rows.map((r) => r.samplesNs.length)),
    min_time_ns: 0,
    warmup: 0,
    token_times: false,
  };
}

function kvType(name = "f16"): KvType {
  return KV_TYPES.find((k) => k === name) ?? (name.startsWith("q8") ? "q8" : "f16");
}

function rowId({ kind, prompt, gen, depth }: ImportedRow): string {
  if (kind === "prefill") return `prefill${prompt}@d${depth}`;
  return kind === "decode" ? `decode${gen}@d${depth}` : `prompt_decode${prompt}+${gen}@d${depth}`;
}

const UNCHECKED: Row["check"] = {
  output_sha256: null,
  reference: null,
  compared_tokens: 0,
  matched_tokens: 0,
  first_divergence: null,
  max_logit_nmse: null,
  rounding_nmse: null,
  routing_match: null,
  repeatable: null,
  ok: false,
};

function reportRow({ from }: Imported, row: ImportedRow): Row {
  const raw = {
    kind: row.kind,
    samples_ns: [...row.samplesNs],
    tokens_per_sample: row.tokens,
    calls: null,
    parts: null,
  };
  const peak = row.peakBytes;
  return {
    id: rowId(row),
    params: {
      n_prompt: row.prompt,
      n_gen: row.gen,
      call_tokens: null,
      n_depth: row.depth,
      rows: null,
      gamma: null,
      kv_type: kvType(row.kv),
      prefill_rows: row.prefillRows ?? 0,
      threads: row.threads ?? 0,
      seed: 0,
      prompt_sha256: null,
      tokens: row.tokenSource,
    },
    status: "ok",
    validity: { verdict: "valid", reasons: [] },
    ...raw,
    warmup_ns: [],
    warmup_tokens: 0,
    order_index: raw.samples_ns.map((_, i) => i),
    started_offset_ns: [],
    stats: statsOf(raw),
    ttft_ns: row.ttftNs ?? null,
    cached_tokens: 0,
    memory: peak === undefined ? null : {
      weights: 0,
      kv: 0,
      state: 0,
      scratch: 0,
      device_peak: null,
      peak,
      baseline: null,
      forecast: 0,
    },
    energy: null,
    limit: null,
    dispatch: null,
    moe: null,
    spec: null,
    rounds: null,
    copy: null,
    quality: null,
    check: UNCHECKED,
    absent: { check: `${from} checks no output`, limit: `${from} does not tell` },
  };
}
