/** A report as a table for people. A number whose check failed is not shown. */
import { rateText } from "../bench/formats/tables.ts";
import type { CallCost, Report, Row } from "../bench/report.ts";
import { bytes, count, duration, type Paint, table } from "./print.ts";
import { counted } from "../engine/wording.ts";
import { verifyTables } from "./verify_table.ts";

const COLUMNS = [
  { title: "row" },
  { title: "tok/s", right: true },
  { title: "n", right: true },
  { title: "first token", right: true },
  { title: "GB/s", right: true },
  { title: "limit", right: true },
  { title: "ms lost", right: true },
  { title: "peak", right: true },
  { title: "" },
] as const;

export function reportTable(report: Report, paint: Paint): string {
  const lines = [headOf(report)];
  if (report.rows.length > 0) {
    lines.push(table(COLUMNS, report.rows.map((row) => cellsOf(row, paint)), paint));
  }
  const moe = report.rows.find((row) => row.moe)?.moe;
  if (moe) {
    lines.push(
      `experts: busiest ${
        moe.imbalance.toFixed(2)
      } times the mean over ${moe.sampled_tokens} tokens\n`,
    );
  }
  for (const cost of report.call_costs ?? []) lines.push(callCostLine(cost));
  lines.push(verifyTables(report, paint));
  return lines.join("");
}

/** What was measured on what: two lines, and what to know about every figure. */
export function headOf({ model, env, tool }: Pick<Report, "model" | "env" | "tool">): string {
  const name = model ? [model.alias ?? model.path, model.synthetic ? "(synthetic)" : ""] : [];
  const size = model
    ? [model.quant, bytes(model.bytes_total), `${count(model.params_total)} parameters`]
    : [];
  const gpu = env.gpus[0]?.name;
  const device = [gpu ?? env.cpu, env.library.isa, counted(env.library.threads, "thread")];
  const memory = env.read_gb_s === null
    ? []
    : [`reads ${env.read_gb_s.toFixed(1)} GB/s, copies ${env.copy_gb_s?.toFixed(1)} GB/s`];
  const commit = tool.commit ? `${tool.commit.slice(0, 8)}${tool.dirty ? "-dirty" : ""}` : "";
  const line = (parts: readonly (string | null | undefined)[]) => parts.filter(Boolean).join(", ");
  return `${line([name.filter(Boolean).join(" "), ...size])}\n` +
    `${line([...device, ...memory, `lapwing ${tool.version} ${commit}`.trim()])}\n` +
    (tool.caveat ? `${tool.caveat}\n` : "");
}

function cellsOf(row: Row, paint: Paint): string[] {
  const nothing = new Array<string>(COLUMNS.length - 3).fill("");
  if (row.status !== "ok") {
    return [row.id, "", ...nothing, paint("red", `${row.status}: ${row.error ?? ""}`)];
  }
  if (!row.check.ok) {
    return [row.id, "", ...nothing, paint("red", `check failed: ${whyUnchecked(row)}`)];
  }
  const fixed = (x: number | null | undefined, digits: number, unit = "") =>
    typeof x === "number" ? x.toFixed(digits) + unit : "";
  const { limit, copy } = row;
  return [
    row.id,
    rateText(row) || (row.stats ? duration(row.stats.median_ns) : ""),
    String(row.samples_ns.length),
    row.ttft_ns === null ? "" : duration(row.ttft_ns),
    fixed(limit?.gb_s ?? copy?.gb_s, 2),
    fixed(limit?.pct_of_measured_bw ?? copy?.pct_of_limit, 1, " %"),
    fixed(limit?.ms_lost_per_token, 3),
    typeof row.memory?.peak === "number" ? bytes(row.memory.peak) : "",
    notesOf(row),
  ];
}

function whyUnchecked({ check }: Row): string {
  if (check.reference === "serial" && check.matched_tokens < check.compared_tokens) {
    return "rounds gave other tokens than serial decode";
  }
  if (check.repeatable === false) return "repetitions gave different tokens";
  if (check.first_divergence !== null) {
    return `chunked and one-row prefill differ from token ${check.first_divergence} on`;
  }
  return `logits of chunked and one-row prefill differ by ${check.max_logit_nmse} (NMSE)`;
}

/** `host: 41.3 us a call (38.9..44.0): decode128@d0,calls=1 in 128 calls against ...` */
function callCostLine({ points, host_ns_per_call: ns, ci95 }: CallCost): string {
  const us = (n: number) => (n / 1e3).toFixed(1);
  const bounds = ci95 ? ` (${us(ci95[0])}..${us(ci95[1])})` : "";
  const [most, fewest] = [points[0], points.at(-1)!];
  if (ci95 && ci95[0] <= 0) {
    return `host: a call's time is within the noise${bounds}: more samples, or a quieter machine\n`;
  }
  return `host: ${us(ns)} us a call${bounds}: ${most.row} in ${
    counted(most.calls, "call")
  } against ` +
    `${fewest.row} in ${fewest.calls}\n`;
}

function notesOf({ kind, quality, validity, copy, absent }: Row): string {
  const notes = quality ? [`perplexity ${quality.perplexity.toFixed(4)}`] : [];
  if (copy) {
    const { limit_gb_s } = copy;
    const most = limit_gb_s === null ? "" : `; pinned memory at ${limit_gb_s.toFixed(2)} GB/s`;
    notes.push(`${bytes(copy.bytes)} copied${most}`);
  } else if (kind === "load") notes.push(`nothing copied: ${absent.copy}`);
  if (validity.verdict !== "valid") {
    notes.push(`${validity.verdict}: ${validity.reasons.join(", ").replaceAll("_", " ")}`);
  }
  return notes.join("; ");
}
