/**
 * The reports that pictures are drawn from, and which of their rows may be drawn: only rows whose checks
 * passed. Says why the others are left out; draws nothing.
 */
import { isComparable, type Report, type Row } from "../report.ts";

export interface Source {
  /** What the user calls it: the file's name. */
  readonly name: string;
  readonly report: Report;
}

export interface SourceRow {
  readonly source: Source;
  readonly row: Row;
}

/** A row that is not in a picture. */
export interface Omission {
  readonly source: string;
  readonly row: string;
  readonly why: string;
}

export interface Selection {
  readonly drawn: readonly SourceRow[];
  readonly omitted: readonly Omission[];
}

/** Why a row must not be drawn; null when it may. */
export function refusalOf(row: Row): string | null {
  if (row.status !== "ok") return row.error ? `${row.status}: ${row.error}` : row.status;
  if (!row.check.ok) return checkText(row);
  if (!isComparable(row)) return `invalid: ${row.validity.reasons.map(reasonText).join(", ")}`;
  return null;
}

function checkText({ check }: Row): string {
  if (check.repeatable === false) return "check failed: its samples gave different outputs";
  if (check.first_divergence === null) return "check failed";
  return `check failed: output differs from token ${check.first_divergence} on`;
}

/** A reason of a verdict as words. */
export function reasonText(reason: string): string {
  return reason.replaceAll("_", " ");
}

/** The rows that `wanted` picks, sorted into those to draw and those to leave out. */
export function select(
  sources: readonly Source[],
  wanted: (row: Row) => boolean,
  lacks: (row: Row) => string | null = lacksRate,
): Selection {
  const drawn: SourceRow[] = [], omitted: Omission[] = [];
  for (const source of sources) {
    for (const row of source.report.rows.filter(wanted)) {
      const why = refusalOf(row) ?? lacks(row);
      if (why === null) drawn.push({ source, row });
      else omitted.push({ source: source.name, row: row.id, why });
    }
  }
  return { drawn, omitted };
}

function lacksRate(row: Row): string | null {
  return row.stats?.median_tps ? null : row.absent["stats.median_tps"] ?? "no rate";
}
