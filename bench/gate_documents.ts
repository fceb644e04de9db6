/**
 * What a gate is given, in one form: rows of reports and of comparisons, points of history, baselines. Owns
 * reading the files and looking fields up; judges nothing.
 */
import { join } from "node:path";
import { shownName, UserError } from "../engine/errors.ts";
import { parseJson } from "../engine/json.ts";
import { type Baseline, BASELINE_SCHEMA, parseBaseline } from "./baseline.ts";
import {
  COMPARE_SCHEMA,
  type CompareRow,
  compareSchema,
  type Comparison,
} from "./compare_report.ts";
import { reportFingerprint } from "./fingerprint.ts";
import { readText, schemaOf } from "./json_file.ts";
import { type Environment, type Report, REPORT_SCHEMA, type Row } from "./report.ts";
import { parseReport } from "./report_file.ts";
import { bootstrapMedianCi, median } from "./stats.ts";

/** Why a row cannot be judged at all. */
export interface Problem {
  readonly outcome: "changed" | "error" | "missing" | "environment";
  readonly why: string;
}

export interface MeasuredRow {
  readonly id: string;
  readonly env: Environment;
  readonly fingerprint: string;
  readonly problem: Problem | null;
  /** The value of a field by its path; null where there is none. */
  value(metric: string): number | null;
  /** 95 % interval of the median rate. */
  readonly interval: readonly [number, number] | null;
  readonly paired: { readonly row: CompareRow; readonly comparison: Comparison } | null;
}

/** Values of one run on one machine. */
export interface HistoryPoint {
  readonly at: string;
  readonly fingerprint: string;
  value(id: string, metric: string): number | null;
}

export interface GateDocuments {
  readonly reports: readonly Report[];
  readonly comparisons: readonly Comparison[];
}

export interface BaselineDocuments {
  readonly baselines: readonly Baseline[];
  readonly history: readonly HistoryPoint[];
}

/** Reads what was measured. Throws UserError. */
export async function readDocuments(paths: readonly string[]): Promise<GateDocuments> {
  const reports: Report[] = [], comparisons: Comparison[] = [];
  for (const path of paths) {
    const text = await readText(path);
    if (schemaOf(text) === COMPARE_SCHEMA) comparisons.push(parseJson(path, text, compareSchema));
    else reports.push(parseReport(text, path));
  }
  return { reports, comparisons };
}

/** Reads a baseline, a report, or a folder of both. */
export async function readBaselines(place: string): Promise<BaselineDocuments> {
  const stat = await Deno.stat(place).catch(() => null);
  if (stat === null) return { baselines: [], history: [] };
  if (!stat.isDirectory) {
    const read = await readBaselineFile(place);
    if (read === null) {
      throw new UserError(`${shownName(place)} is no baseline, report or comparison`);
    }
    return read;
  }
  const baselines: Baseline[] = [], history: HistoryPoint[] = [];
  const names = (await Array.fromAsync(Deno.readDir(place))).map((e) => e.name).sort();
  for (const name of names.filter((n) => /\.jsonl?$/.test(n))) {
    // A folder may also hold policies and noise profiles.
    const read = await readBaselineFile(join(place, name));
    baselines.push(...read?.baselines ?? []);
    history.push(...read?.history ?? []);
  }
  return { baselines, history };
}

async function readBaselineFile(path: string) {
  const text = await readText(path), schema = schemaOf(text);
  if (schema === BASELINE_SCHEMA) {
    const baseline = parseBaseline(text, path);
    return { baselines: [baseline], history: pointsOfBaseline(baseline) };
  }
  if (schema === REPORT_SCHEMA) {
    return { baselines: [], history: [pointOfReport(parseReport(text, path))] };
  }
  if (schema === COMPARE_SCHEMA) {
    return { baselines: [], history: [pointOfComparison(parseJson(path, text, compareSchema))] };
  }
  return null;
}

function pointsOfBaseline({ fingerprint, entries }: Baseline): HistoryPoint[] {
  return entries.map((entry) => ({
    at: entry.accepted_at,
    fingerprint,
    value: (id, metric) =>
      entry.rows.find((r) => r.id === id && r.metric === metric)?.value ?? null,
  }));
}

function pointOfReport(report: Report): HistoryPoint {
  return point(report.started_at, reportFingerprint(report), rowsOfReport(report));
}

function pointOfComparison(comparison: Comparison): HistoryPoint {
  return point(comparison.started_at, comparison.fingerprint, rowsOfComparison(comparison));
}

function point(at: string, fingerprint: string, rows: readonly MeasuredRow[]): HistoryPoint {
  return {
    at,
    fingerprint,
    value: (id, metric) =>
      rows.find((r) => r.id === id && r.problem === null)?.value(metric) ?? null,
  };
}

export function rowsOfReport(report: Report): MeasuredRow[] {
  const { env } = report, fingerprint = reportFingerprint(report);
  return report.rows.map((row) => ({
    id: row.id,
    env,
    fingerprint,
    problem: problemOf(row),
    value: (metric) => fieldOf(row, metric),
    interval: row.stats?.ci95 ?? null,
    paired: null,
  }));
}

function problemOf(row: Row): Problem | null {
  if (row.status === "error") return { outcome: "error", why: row.error ?? "the row failed" };
  if (row.status === "skipped") return { outcome: "missing", why: row.error ?? "skipped" };
  if (!row.check.ok) {
    const at = row.check.first_divergence;
    return {
      outcome: "changed",
      why: `a check of the output failed${at === null ? "" : ` at token ${at}`}`,
    };
  }
  if (row.validity.verdict === "invalid") {
    return { outcome: "environment", why: `invalid: ${row.validity.reasons.join(", ")}` };
  }
  return null;
}

/** `median_tps` is short for `stats.median_tps`. */
function fieldOf(row: Row, metric: string): number | null {
  const path = metric.includes(".") || metric in row ? metric : `stats.${metric}`;
  let at: unknown = row;
  for (const key of path.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return null;
    at = (at as Record<string, unknown>)[key];
  }
  return typeof at === "number" ? at : null;
}

export function rowsOfComparison(comparison: Comparison): MeasuredRow[] {
  const { env, fingerprint, session } = comparison;
  return comparison.rows.map((row) => {
    const rates = headRates(row);
    const problem: Problem | null = row.outcome === "error"
      ? { outcome: "error", why: row.error ?? row.why }
      : row.outcome === "incomparable"
      ? { outcome: "changed", why: row.why }
      : session.valid
      ? null
      : { outcome: "environment", why: session.reasons.join("; ") };
    return {
      id: row.id,
      env,
      fingerprint,
      problem,
      value: (metric) => metric === "median_tps" && rates.length > 0 ? median(rates) : null,
      interval: intervalOf(rates),
      paired: { row, comparison },
    };
  });
}

function headRates(row: CompareRow): number[] {
  if (row.unpaired) {
    return row.unpaired.head_ns.map((ns) => 1e9 * row.unpaired!.head_steps / ns);
  }
  return row.pairs.filter((p) => p.rejected === null).map((p) => 1e9 * p.steps / p.head_ns);
}

function intervalOf(rates: readonly number[]): readonly [number, number] | null {
  const ci = bootstrapMedianCi(rates, { confidence: 0.95, resamples: 2000, seed: 1 });
  return ci && [ci.lo, ci.hi];
}
