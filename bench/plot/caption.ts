/** The words below a picture: where its numbers come from, and what a reader must know before trusting it. */
import type { Row } from "../report.ts";
import type { LegendItem } from "./picture.ts";
import { countText, dateText, spanText } from "./numbers.ts";
import { factTexts, type Series, type Setting } from "./series.ts";
import { type Omission, reasonText, type Source, type SourceRow } from "./source.ts";

/** Longer lists of the same thing are cut. */
const LISTED = 4;

/** What ran where, the runs that it is from, and what is to be known of all their figures. */
export function factLines(series: readonly Series[], settings: readonly Setting[]): string[] {
  const sources = [...new Set(series.flatMap((s) => s.rows).map((r) => r.source))];
  const { shared, own } = factTexts(series, settings);
  const owns = own.map(({ labels, facts }) => `${labels.join("; ")}: ${joinFacts(facts)}`);
  const caveats = new Set(sources.flatMap((s) => s.report.tool.caveat ?? []));
  return [joinFacts(shared), ...owns, runsText(sources), ...caveats];
}

/** A line may break behind a point, not within a fact. */
function joinFacts(facts: readonly string[]): string {
  return facts.map((f) => f.replaceAll(" ", "\u00a0")).join("\u00a0· ");
}

/** What the dashed lines mean, with the bandwidths behind them. */
export function limitLine(rows: readonly SourceRow[]): string {
  const measured = rows.flatMap(({ row }) => row.limit?.measured_gb_s ?? []);
  const known = rows.filter(({ row }) => row.limit?.tps_limit).length;
  if (known === 0) return "No hardware limit is drawn: the reports give none for these rows.";
  const missing = known < rows.length ? ` It is unknown for ${rows.length - known} rows.` : "";
  const speed = measured.length === 0
    ? "the measured bandwidth"
    : `the ${spanText(measured, (n) => n.toFixed(n < 100 ? 1 : 0))} GB/s measured in the run`;
  return `Hardware limit: the bytes that a token has to touch, at ${speed}.${missing}`;
}

/** What the bars mean. */
export function intervalLine(rows: readonly SourceRow[]): string {
  const n = rows.flatMap(({ row }) => row.stats?.n ?? []);
  if (n.length === 0) return "";
  const samples = n.every((k) => k === 1) ? "1 sample a point" : `${spanText(n)} samples a point`;
  return rows.some(({ row }) => row.stats?.ci95)
    ? `Points: medians; bars, where longer than a point: 95% confidence interval; ${samples}.`
    : `Points: medians, without confidence intervals; ${samples}.`;
}

function runsText(sources: readonly Source[]): string {
  if (sources.length > LISTED) {
    const dates = sources.map((s) => s.report.started_at).sort().map(dateText);
    const versions = new Set(sources.map((s) => `lapwing ${s.report.tool.version}`));
    return `${sources.length} reports from ${dates[0]} to ${dates[dates.length - 1]} UTC, ` +
      [...versions].join(", ");
  }
  const parts = sources.map(({ name, report: { tool, started_at } }) => {
    const commit = tool.commit ? ` ${tool.commit.slice(0, 9)}` : "";
    const dirty = tool.dirty ? " (uncommitted changes)" : "";
    return `${name}: lapwing ${tool.version}${commit}${dirty}, ${dateText(started_at)} UTC`;
  });
  return parts.join("; ");
}

/** Random weights, suspect rows, rows that are missing. */
export function noteLines(
  rows: readonly SourceRow[],
  omitted: readonly Omission[],
  manySources: boolean,
): string[] {
  const synthetic = rows.filter(({ source: { report } }) => report.model?.synthetic).length;
  const suspects = rows.filter(({ row }) => row.validity.verdict === "suspect");
  const which = synthetic === rows.length ? "Synthetic" : `Synthetic in ${synthetic} rows`;
  return [
    synthetic > 0 && `${which}: random weights; speeds are real, the text means nothing.`,
    suspects.length > 0 && `Suspect (hollow): ${suspectText(suspects, rows.length, manySources)}.`,
    omitted.length > 0 &&
    `Not drawn: ${list(omitted.map((o) => `${place(o.row, o.source, manySources)} (${o.why})`))}.`,
  ].filter((line) => line !== false);
}

/** Each row with its reasons; where there are many, how often each reason is given. */
function suspectText(suspects: readonly SourceRow[], all: number, manySources: boolean): string {
  if (suspects.length <= LISTED) {
    return list(
      suspects.map(({ source, row }) =>
        `${place(row.id, source.name, manySources)} (${reasonsText(row)})`
      ),
    );
  }
  const reasons = suspects.flatMap(({ row }) => row.validity.reasons.map(reasonText));
  const counts = [...Map.groupBy(reasons, (r) => r)].map(([r, of]) => `${r} ${of.length}`);
  return `${suspects.length} of ${all} rows (${counts.join(", ")})`;
}

function reasonsText(row: Row): string {
  return row.validity.reasons.map(reasonText).join(", ");
}

function place(row: string, source: string, manySources: boolean): string {
  return manySources ? `${row} of ${source}` : row;
}

function list(items: readonly string[]): string {
  const more = items.length > LISTED ? [`${items.length - LISTED} more`] : [];
  return [...items.slice(0, LISTED), ...more].join(", ");
}

/** The legend's entry for hollow points, where there are any. */
export function suspectLegend(rows: readonly SourceRow[]): LegendItem[] {
  const any = rows.some(({ row }) => row.validity.verdict === "suspect");
  return any ? [{ label: "suspect", mark: "hollow", series: null }] : [];
}

/** What a point says when it is pointed at. */
export function pointTitle({ row }: SourceRow, value: string): string {
  const samples = row.stats ? `, ${countText(row.stats.n, "sample")}` : "";
  const verdict = row.validity.verdict === "valid"
    ? ""
    : `\n${row.validity.verdict}: ${reasonsText(row)}`;
  return `${row.id}\n${value}${samples}${verdict}`;
}
