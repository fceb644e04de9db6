/** Reports as a Markdown table and as CSV. */
import type { Report, Row } from "../report.ts";
import { exportable, modelName } from "./selection.ts";

const fixed = (x: number | null | undefined, digits: number) =>
  typeof x === "number" ? x.toFixed(digits) : "";

/** `x ± half its interval`, with digits that fit the size. */
export function rateText(row: Row): string {
  const { stats } = row;
  if (!stats || stats.median_tps === null) return "";
  const digits = stats.median_tps < 100 ? 2 : 1;
  const half = stats.ci95 ? ` ± ${((stats.ci95[1] - stats.ci95[0]) / 2).toFixed(digits)}` : "";
  return stats.median_tps.toFixed(digits) + half;
}

export function toMarkdown(report: Report): string {
  const head = ["model", "test", "tok/s", "n", "first token ms", "GB/s", "% of limit", "ms lost"];
  const rows = exportable(report).rows.map((row) => [
    modelName(report),
    row.id,
    rateText(row),
    String(row.samples_ns.length),
    row.ttft_ns === null ? "" : fixed(row.ttft_ns / 1e6, 2),
    fixed(row.limit?.gb_s, 2),
    fixed(row.limit?.pct_of_measured_bw, 1),
    fixed(row.limit?.ms_lost_per_token, 3),
  ]);
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = `| ${head.map((_, i) => i < 2 ? "---" : "---:").join(" | ")} |`;
  const caveat = report.tool.caveat ? ["", report.tool.caveat] : [];
  return [line(head), rule, ...rows.map(line), ...caveat, ""].join("\n");
}

/** Columns by name; nested values by path. */
const COLUMNS: readonly (readonly [string, (row: Row, report: Report) => unknown])[] = [
  ["model", (_, report) => modelName(report)],
  ["id", (r) => r.id],
  ["kind", (r) => r.kind],
  ["n_prompt", (r) => r.params.n_prompt],
  ["n_gen", (r) => r.params.n_gen],
  ["n_depth", (r) => r.params.n_depth],
  ["rows", (r) => r.params.rows],
  ["kv_type", (r) => r.params.kv_type],
  ["threads", (r) => r.params.threads],
  ["n", (r) => r.samples_ns.length],
  ["median_ns", (r) => r.stats?.median_ns],
  ["median_tps", (r) => r.stats?.median_tps],
  ["ci95_lo", (r) => r.stats?.ci95?.[0]],
  ["ci95_hi", (r) => r.stats?.ci95?.[1]],
  ["mad_pct", (r) => r.stats?.mad_pct],
  ["ttft_ns", (r) => r.ttft_ns],
  ["gb_s", (r) => r.limit?.gb_s],
  ["measured_gb_s", (r) => r.limit?.measured_gb_s],
  ["pct_of_measured_bw", (r) => r.limit?.pct_of_measured_bw],
  ["ms_lost_per_token", (r) => r.limit?.ms_lost_per_token],
  ["peak_bytes", (r) => r.memory?.peak],
  ["j_per_token", (r) => r.energy?.j_per_token],
  ["perplexity", (r) => r.quality?.perplexity],
  ["validity", (r) => r.validity.verdict],
  ["output_sha256", (r) => r.check.output_sha256],
  ["caveat", (_, report) => report.tool.caveat],
];

export function toCsv(report: Report): string {
  const quote = (value: unknown) => `"${String(value ?? "").replaceAll('"', '""')}"`;
  const lines: unknown[][] = [COLUMNS.map(([name]) => name)];
  for (const row of exportable(report).rows) lines.push(COLUMNS.map(([, of]) => of(row, report)));
  return lines.map((cells) => cells.map(quote).join(",") + "\n").join("");
}
