/**
 * Verdicts as one line each, the same in a terminal, an annotation and a table. Formats only.
 */
import type { CompareRow, Comparison, RowOutcome } from "./compare_report.ts";
import type { Estimate } from "./verdict.ts";

export const OUTCOME_WORDS: Readonly<Record<RowOutcome, string>> = {
  pass: "PASS",
  fail: "FAIL",
  inconclusive: "INCONCLUSIVE",
  incomparable: "CHANGED",
  error: "ERROR",
};

/** `2%`, `1.4%`. */
export function percent(fraction: number): string {
  return `${Number((100 * fraction).toFixed(1))}%`;
}

/** `0.957x (95% CI 0.949..0.964, 20 pairs, tol 2%, MDE 1.4%)`. */
export function estimateText(
  e: Estimate,
  { tolerance, confidence }: { readonly tolerance: number; readonly confidence: number },
  unit = "pairs",
): string {
  const [lo, hi] = e.ci.map((x) => x.toFixed(3));
  return `${e.ratio.toFixed(3)}x (${percent(confidence)} CI ${lo}..${hi}, ${e.pairs} ${unit}, ` +
    `tol ${percent(tolerance)}, MDE ${percent(e.mde)})`;
}

/** The line of one row of a comparison. */
export function rowLine(row: CompareRow, settings: Comparison["settings"]): string {
  const word = OUTCOME_WORDS[row.outcome];
  if (row.estimate === null) return `${word} ${row.id}: ${row.why}`;
  const unit = row.unpaired ? "samples" : "pairs";
  const text = `${word} ${row.id}: ${estimateText(row.estimate, settings, unit)}`;
  const quiet = row.outcome === "pass" || row.outcome === "fail";
  return quiet ? text : `${text}: ${row.why}`;
}

/** What a reader of a row must know beside its line. */
export function rowNotes({ id, settling, pairs }: CompareRow): string[] {
  const rejected = pairs.filter((p) => p.rejected !== null).length;
  return [
    ...(settling && !settling.settled
      ? [`${id}: rates still drifted or scattered after ${settling.pairs} untimed pairs`]
      : []),
    ...(rejected > 0 ? [`${id}: ${rejected} of ${pairs.length} pairs rejected`] : []),
  ];
}

/** Worst first, so that the first line says what matters. */
const SEVERITY: readonly RowOutcome[] = ["incomparable", "fail", "error", "inconclusive", "pass"];

export function bySeverity<T extends { readonly outcome: RowOutcome }>(rows: readonly T[]): T[] {
  return [...rows].sort((a, b) => SEVERITY.indexOf(a.outcome) - SEVERITY.indexOf(b.outcome));
}

/** What a run as a whole says; the command line gives each an exit code. */
export const VERDICTS = [
  "pass",
  "regression",
  "errors",
  "output_changed",
  "inconclusive",
  "environment",
  "interrupted",
] as const;
export type Verdict = typeof VERDICTS[number];

/** The verdict of a comparison on its own. */
export function comparisonVerdict({ session, rows }: Comparison): Verdict {
  if (session.interrupted) return "interrupted";
  if (!session.valid) return "environment";
  const has = (o: RowOutcome) => rows.some((r) => r.outcome === o);
  if (has("incomparable")) return "output_changed";
  if (has("fail")) return "regression";
  if (has("error")) return "errors";
  return has("inconclusive") || rows.length === 0 ? "inconclusive" : "pass";
}
