/** Reports as llama-bench's JSON rows, and back. Times are exact; its rates are recomputed from them. */
import * as v from "valibot";
import { UserError } from "../../engine/errors.ts";
import { shorten } from "../../engine/json.ts";
import { rate } from "../figures.ts";
import type { Report, Row } from "../report.ts";
import { importedReport, type ImportedRow } from "./imported.ts";
import { deviceName, exportable, modelName } from "./selection.ts";

const KINDS = ["prefill", "decode", "prompt_decode"];

export function toLlamaBench(report: Report): string {
  const rows = exportable(report).rows.filter((row) => KINDS.includes(row.kind));
  return JSON.stringify(rows.map((row) => llamaRow(report, row)), null, 2) + "\n";
}

function llamaRow(report: Report, row: Row): Record<string, unknown> {
  const { tool, env, model } = report, { params } = row;
  const rates = row.samples_ns.map((ns) => rate(row.tokens_per_sample, ns) ?? 0);
  return {
    build_commit: tool.commit?.slice(0, 8) ?? "unknown",
    build_number: 0,
    cpu_info: env.cpu,
    gpu_info: env.gpus.map((g) => g.name).join(", "),
    backends: env.library.backend.toUpperCase(),
    model_filename: model?.path ?? modelName(report),
    model_type: `${modelName(report)} ${model?.quant ?? ""}`.trim(),
    model_size: model?.bytes_total ?? 0,
    model_n_params: model?.params_total ?? 0,
    n_batch: params.prefill_rows,
    n_ubatch: params.prefill_rows,
    n_threads: params.threads,
    type_k: params.kv_type,
    type_v: params.kv_type,
    n_gpu_layers: env.library.backend === "cpu" ? 0 : -1,
    flash_attn: 1,
    devices: deviceName(report),
    n_prompt: params.n_prompt,
    n_gen: params.n_gen,
    n_depth: params.n_depth,
    test_time: report.started_at.replace(/\.\d+Z$/, "Z"),
    avg_ns: Math.round(meanOf(row.samples_ns)),
    stddev_ns: Math.round(deviationOf(row.samples_ns)),
    avg_ts: meanOf(rates),
    stddev_ts: deviationOf(rates),
    samples_ns: row.samples_ns,
    samples_ts: rates,
  };
}

function meanOf(values: readonly number[]): number {
  return values.length > 0 ? values.reduce((a, b) => a + b, 0) / values.length : 0;
}

/** Of a sample, around the mean that was found first. */
function deviationOf(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1));
}

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const rowSchema = v.looseObject({
  n_prompt: count,
  n_gen: count,
  n_depth: v.optional(count, 0),
  samples_ns: v.pipe(v.array(count), v.minLength(1)),
  test_time: v.optional(v.string()),
  build_commit: v.optional(v.string(), "unknown"),
  cpu_info: v.optional(v.string(), "unknown"),
  gpu_info: v.optional(v.string(), ""),
  backends: v.optional(v.string(), "unknown"),
  model_filename: v.optional(v.string(), "unknown"),
  model_type: v.optional(v.string(), "unknown"),
  model_size: v.optional(count, 0),
  model_n_params: v.optional(count, 0),
  n_ubatch: v.optional(count, 0),
  n_threads: v.optional(count, 0),
  type_k: v.optional(v.string(), "f16"),
});
type LlamaRow = v.InferOutput<typeof rowSchema>;

/** Reads an array of rows, or a row a line. Throws UserError. */
export function fromLlamaBench(text: string, where: string): Report {
  const rows = parseRows(text, where).map((value, i): LlamaRow => {
    const result = v.safeParse(rowSchema, value, { abortEarly: true });
    if (result.success) return result.output;
    const issue = result.issues[0];
    throw new UserError(
      `${where}: row ${i + 1}: ${v.getDotPath(issue)}: ${shorten(issue.message)}`,
    );
  });
  if (rows.length === 0) throw new UserError(`${where} has no rows.`);
  const [first] = rows;
  return importedReport({
    from: "llama-bench",
    version: first.build_commit,
    startedAt: first.test_time,
    model: first.model_filename,
    quant: first.model_type,
    modelBytes: first.model_size,
    params: first.model_n_params,
    cpu: first.cpu_info,
    gpu: first.gpu_info,
    backend: first.backends.toLowerCase(),
    rows: rows.map(importedRow),
  });
}

function parseRows(text: string, where: string): unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : [value];
  } catch {
    try {
      return text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    } catch {
      throw new UserError(`${where} is not llama-bench JSON: expected an array or a row a line.`);
    }
  }
}

function importedRow(row: LlamaRow): ImportedRow {
  const { n_prompt: prompt, n_gen: gen, n_depth: depth } = row;
  const kind = prompt === 0 ? "decode" : gen === 0 ? "prefill" : "prompt_decode";
  return {
    kind,
    prompt,
    gen,
    depth,
    samplesNs: row.samples_ns,
    tokens: prompt + gen,
    kv: row.type_k,
    prefillRows: row.n_ubatch,
    threads: row.n_threads,
    tokenSource: "random",
  };
}
