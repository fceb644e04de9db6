/**
 * The same rows in one run after another: a panel a row, runs in the order of their dates, so that a slow
 * loss shows that no single comparison finds. A run whose row failed leaves a gap, marked.
 */
import {
  axisX,
  axisY,
  drawFrame,
  limitColor,
  limitMarks,
  type LimitPoint,
  Plot,
  type Point,
  seriesMarks,
} from "./canvas.ts";
import { factLines, intervalLine, limitLine, noteLines, suspectLegend } from "./caption.ts";
import {
  type History,
  HISTORY_SETTINGS,
  historyOf,
  type HistoryRun,
  type HistoryValue,
  type NamedBaseline,
  type Track,
} from "./history_data.ts";
import { spaced } from "./layout.ts";
import { changeText, countText, dateText, percentText, rateText } from "./numbers.ts";
import { MAX_SERIES, type Palette } from "./palette.ts";
import type { DataTable, Drawing, LegendItem, Panel, PanelSize, Picture } from "./picture.ts";
import type { Series } from "./series.ts";
import type { Omission, Source } from "./source.ts";

/** One picture with a panel a row. */
export function drawHistory(
  sources: readonly Source[],
  baselines: readonly NamedBaseline[],
): Drawing {
  const history = historyOf(sources, baselines);
  if (history.tracks.length === 0) {
    const entries = baselines.reduce((n, b) => n + b.baseline.entries.length, 0);
    const few = sources.length + entries < 2;
    const empty = few ? "needs two runs or more" : "no row is in two of the runs";
    return { pictures: [], omitted: [], empty };
  }
  const labels = [...new Set(history.tracks.map((t) => t.label))].slice(-MAX_SERIES);
  const shown = history.tracks.filter((t) => labels.includes(t.label));
  const picture = pictureOf({ ...history, tracks: shown }, labels);
  return { pictures: [picture], omitted: history.failed, empty: null };
}

function pictureOf({ runs, tracks, failed }: History, labels: readonly string[]): Picture {
  const rows = [...new Set(tracks.map((t) => t.row))];
  const panels = rows.map((row, i): PanelData => ({
    tracks: tracks.filter((t) => t.row === row),
    labels,
    runs,
    failed: failed.filter((o) => o.row === row),
    last: i === rows.length - 1,
  }));
  const series = seriesOf(tracks), entries = series.flatMap((s) => s.rows);
  const accepted = tracks.flatMap(valuesOf).filter((v) => v.entry === null).length;
  const dates = [runs[0], runs[runs.length - 1]].map((r) => dateText(r.at));
  return {
    name: "history",
    kind: "history",
    title: "Rates from run to run",
    finding: `${countText(runs.length, "run")}, ${dates[0]} to ${dates[1]} UTC; ${worst(tracks)}`,
    legend: legend(labels, tracks, failed),
    panels: (size, palette) => panels.map((data) => panelOf(data, size, palette)),
    facts: [
      "Each panel has its own scale, which need not begin at 0." +
      (entries.length > 0 ? ` ${limitLine(entries)}` : ""),
      intervalLine(entries),
      ...accepted > 0 ? [`${countText(accepted, "point")} out of accepted baselines.`] : [],
      ...series.length > 0 ? factLines(series, HISTORY_SETTINGS) : [],
    ],
    notes: noteLines(entries, failed, true),
    table: tableOf(tracks, runs),
  };
}

function valuesOf(track: Track): HistoryValue[] {
  return track.values.flatMap((v) => v ?? []);
}

/** What reports say about tracks; baselines know no more than their values. */
function seriesOf(tracks: readonly Track[]): Series[] {
  return [...new Set(tracks.map((t) => t.label))].map((label) => ({
    label,
    rows: tracks.filter((t) => t.label === label).flatMap(valuesOf).flatMap((v) => v.entry ?? []),
  })).filter((s) => s.rows.length > 0);
}

/** Percent from the oldest to the newest run. */
function changeOf(track: Track): number {
  const values = valuesOf(track);
  return (values[values.length - 1].rate / values[0].rate - 1) * 100;
}

function worst(tracks: readonly Track[]): string {
  const least = tracks.toSorted((a, b) => changeOf(a) - changeOf(b))[0];
  const change = changeText(changeOf(least));
  if (tracks.length === 1) return `${least.row}: ${change} since the oldest`;
  return changeOf(least) < 0
    ? `the largest loss since the oldest: ${least.row}, ${change}`
    : `no row has lost since the oldest; the smallest gain: ${least.row}, ${change}`;
}

function legend(
  labels: readonly string[],
  tracks: readonly Track[],
  failed: readonly Omission[],
): LegendItem[] {
  const limited = tracks.some((t) => {
    const { high } = rangeOf(tracks.filter((other) => other.row === t.row));
    return limitsOf(t).some((l) => l.limit <= high);
  });
  const limit = labels.length === 1 ? "hardware limit" : "hardware limit of each";
  return [
    ...labels.map((label, series): LegendItem => ({ label, mark: "line", series })),
    ...limited ? [{ label: limit, mark: "dash", series: null } as const] : [],
    ...failed.length > 0
      ? [{ label: "failed or left out", mark: "cross", series: null } as const]
      : [],
    ...suspectLegend(seriesOf(tracks).flatMap((s) => s.rows)),
  ];
}

interface PanelData {
  readonly tracks: readonly Track[];
  readonly labels: readonly string[];
  readonly runs: readonly HistoryRun[];
  readonly failed: readonly Omission[];
  /** Bears the axis of the runs. */
  readonly last: boolean;
}

/** From where to where a panel reaches: the limit is in it unless it would press the rates flat. */
function rangeOf(tracks: readonly Track[]): { readonly low: number; readonly high: number } {
  const all = tracks.flatMap(valuesOf);
  const values = all.flatMap((v) => [v.rate, ...v.interval ?? []]);
  const near = all.flatMap((v) => v.limit ?? []).filter((l) => l < 1.5 * Math.max(...values));
  const low = Math.min(...values, ...near), high = Math.max(...values, ...near);
  const pad = Math.max((high - low) * 0.18, high * 0.01);
  return { low: Math.max(0, low - pad), high: high + pad };
}

function headingOf(tracks: readonly Track[]): string {
  const changes = tracks.map((t) => changeText(changeOf(t))).join(", ");
  const { high } = rangeOf(tracks);
  const beyond = tracks.filter((t) => limitsOf(t).some((l) => l.limit > high)).map((t) => {
    const { rate, limit } = valuesOf(t).findLast((v) => v.limit !== null)!;
    const share = percentText(rate / limit!);
    return `; limit ${rateText(limit!)}, above the panel (${share} reached)`;
  });
  return `${tracks[0].row}, tokens/s: ${changes} since the oldest${beyond.join("")}`;
}

function panelOf(data: PanelData, size: PanelSize, palette: Palette): Panel {
  const { tracks, runs, last } = data;
  const height = 126 + (last ? 34 : 0);
  const { low, high } = rangeOf(tracks);
  const svg = drawFrame({
    size,
    height,
    margin: { top: 8, bottom: last ? 46 : 12 },
    x: { domain: [0, runs.length - 1], insetLeft: 24, insetRight: 24 },
    y: { domain: [low, high] },
    marks: [
      ...axisY(palette, { label: "", ticks: 3, text: rateText }),
      last ? runAxis(runs, size, palette) : null,
      ...tracks.flatMap((track) => {
        const series = data.labels.indexOf(track.label);
        const color = limitColor(data.labels.length === 1 ? null : series, palette);
        return [
          ...limitMarks(limitsOf(track).filter((l) => l.limit <= high), color, false),
          ...seriesMarks(pointsOf(track, data), series, palette),
        ];
      }),
      gapMarks(data, low, palette),
    ],
  });
  return { heading: headingOf(tracks), svg, height };
}

function limitsOf(track: Track): LimitPoint[] {
  return track.values.flatMap((v, x) => v?.limit ? [{ x, limit: v.limit }] : []);
}

/** A line passes over runs that did not measure the row, and breaks where the row failed. */
function pointsOf(track: Track, { failed, runs }: PanelData): Point[] {
  return track.values.flatMap((value, x): Point[] => {
    if (value) {
      const { rate, interval, title, verdict } = value;
      const lo = interval?.[0] ?? null, hi = interval?.[1] ?? null;
      return [{ x, y: rate, lo, hi, title, suspect: verdict === "suspect" }];
    }
    const broken = failed.some((o) => o.source === runs[x].name);
    return broken ? [{ x, y: NaN, lo: null, hi: null, title: "", suspect: false }] : [];
  });
}

/** Crosses at the bottom for runs in which the row failed. */
function gapMarks({ failed, runs }: PanelData, floor: number, palette: Palette): Plot.Markish {
  const gaps = failed.map((o) => ({
    x: runs.findIndex((r) => r.name === o.source),
    y: floor,
    title: `${o.row} of ${o.source}\n${o.why}`,
  }));
  return Plot.dot(gaps, {
    x: "x",
    y: "y",
    dy: -7,
    symbol: "times",
    r: 4,
    stroke: palette.ink,
    strokeWidth: 1.75,
    title: "title",
    className: "gaps",
  });
}

/** Date and commit of each run that has room for them. */
function runAxis(runs: readonly HistoryRun[], size: PanelSize, palette: Palette): Plot.Markish {
  const step = (size.width - 116) / Math.max(1, runs.length - 1);
  const ticks = spaced(runs.map((_, i) => i * step), 76);
  const text = (i: number) => {
    const { at, commit, dirty } = runs[i];
    return dateText(at).slice(0, 10) + (commit ? `\n${commit.slice(0, 7)}${dirty ? "+" : ""}` : "");
  };
  return axisX(palette, { label: "", ticks, text });
}

function tableOf(tracks: readonly Track[], runs: readonly HistoryRun[]): DataTable {
  const rows = tracks.flatMap((t) =>
    t.values.map((value, i) => {
      const { name, at, commit } = runs[i];
      const start = [t.row, t.label, dateText(at), commit?.slice(0, 9) ?? "-", name];
      if (!value) return [...start, "-", "-", "not drawn"];
      const interval = value.interval ? value.interval.map(rateText).join(" to ") : "-";
      return [...start, rateText(value.rate), interval, value.verdict];
    })
  );
  const head = ["row", "series", "date, UTC", "commit", "run", "tokens/s", "95% CI", "verdict"];
  return { head, rows };
}
