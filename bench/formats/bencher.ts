/** Reports as Bencher Metric Format: benchmark, measure, value with its interval. */
import type { Report, Row } from "../report.ts";
import { exportable, modelName } from "./selection.ts";

interface Metric {
  readonly value: number;
  readonly lower_value?: number;
  readonly upper_value?: number;
}

const MEASURE: Readonly<Partial<Record<Row["kind"], string>>> = {
  prefill: "prefill-throughput",
  decode: "decode-throughput",
  prompt_decode: "decode-throughput",
  verify: "verify-throughput",
  perplexity: "prefill-throughput",
};
const NAME_MAX = 1024;

export function toBencher(report: Report): string {
  const out: Record<string, Record<string, Metric>> = {};
  for (const row of exportable(report).rows) {
    const metrics = metricsOf(row);
    if (Object.keys(metrics).length === 0) continue;
    out[`${modelName(report)}/${row.id.replace("@", "/")}`.slice(0, NAME_MAX)] = metrics;
  }
  return JSON.stringify(out, null, 2) + "\n";
}

function metricsOf(row: Row): Record<string, Metric> {
  const { stats } = row, out: Record<string, Metric> = {};
  const measure = MEASURE[row.kind];
  if (measure && stats && stats.median_tps !== null) {
    out[measure] = {
      value: stats.median_tps,
      ...(stats.ci95 ? { lower_value: stats.ci95[0], upper_value: stats.ci95[1] } : {}),
    };
  }
  if (row.kind === "load" && stats) out["load-time"] = { value: stats.median_ns };
  if (row.ttft_ns !== null) out.ttft = { value: row.ttft_ns };
  if (typeof row.memory?.peak === "number") out["peak-memory"] = { value: row.memory.peak };
  if (typeof row.energy?.j_per_token === "number") {
    out["energy-per-token"] = { value: row.energy.j_per_token };
  }
  if (row.quality) out.perplexity = { value: row.quality.perplexity };
  return out;
}
