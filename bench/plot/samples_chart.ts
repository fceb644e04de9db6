/**
 * Every sample of a run in the order in which it was taken, as a share of its row's median: shows drift,
 * slow starts and outliers, which a median hides. One picture a report.
 */
import type { Row } from "../report.ts";
import { axisX, axisY, drawFrame, Plot, type Point, seriesMarks } from "./canvas.ts";
import { factLines, noteLines, suspectLegend } from "./caption.ts";
import { spaced } from "./layout.ts";
import { changeText, countText, percentText } from "./numbers.ts";
import { MAX_SERIES, type Palette } from "./palette.ts";
import type { DataTable, Drawing, LegendItem, PanelSize, Picture } from "./picture.ts";
import { modelText } from "./series.ts";
import { select, type Source, type SourceRow } from "./source.ts";

/** Its x is its place among all samples of the run. */
interface Sample extends Point {
  readonly entry: SourceRow;
  /** Since the run began. */
  readonly atNs: number | null;
}

/** Samples that share a colour: of a row, or of all rows of a kind when there are many. */
interface Track {
  readonly label: string;
  readonly rows: readonly (readonly Sample[])[];
}

/** Sample pictures of more reports would bury the others. */
const MAX_REPORTS = 4;

export function drawSamples(sources: readonly Source[]): Drawing {
  const newest = sources.toSorted((a, b) =>
    Date.parse(b.report.started_at) - Date.parse(a.report.started_at)
  ).slice(0, MAX_REPORTS);
  const each = sources.filter((s) => newest.includes(s)).map((source) => ({
    source,
    ...select([source], (row) => row.samples_ns.length > 0 || row.status !== "ok", lacksSamples),
  }));
  const withRows = each.filter((e) => e.drawn.length > 0);
  const pictures = withRows.map(({ source, drawn, omitted }, i) => ({
    ...pictureOf(source, drawn, noteLines(drawn, omitted, false)),
    name: withRows.length === 1 ? "samples" : `samples-${i + 1}`,
  }));
  return {
    pictures,
    omitted: each.flatMap((e) => e.omitted),
    empty: pictures.length > 0 ? null : "no row with two samples or more",
  };
}

function lacksSamples(row: Row): string | null {
  if (row.samples_ns.some((ns) => ns <= 0)) return "a sample without time";
  return row.samples_ns.length > 1 ? null : "a single sample";
}

function pictureOf(
  source: Source,
  drawn: readonly SourceRow[],
  notes: readonly string[],
): Omit<Picture, "name"> {
  const tracks = tracksOf(drawn);
  const samples = tracks.flatMap((t) => t.rows.flat());
  const low = Math.min(...samples.map((s) => s.y)), high = Math.max(...samples.map((s) => s.y));
  return {
    kind: "samples",
    title: "Rate of each sample against the median of its row",
    finding: `${source.name}, ${modelText(source)}: ${countText(samples.length, "sample")} of ` +
      `${countText(drawn.length, "row")}, from ${percentText(low / 100)} to ` +
      `${percentText(high / 100)} of the median`,
    legend: legend(tracks, drawn),
    panels: (size, palette) => [{
      heading: null,
      svg: drawTracks(tracks, size, palette),
      height: heightOf(size),
    }],
    facts: [
      "Rates in the order of measurement; 100% is a row's own median rate; thin lines: the row's drift by its median slope. Untimed " +
      "warm-ups are not shown.",
      ...factLines([{ label: "", rows: drawn }], ["threads", "tokens", "seed"]),
    ],
    notes,
    table: tableOf(tracks),
  };
}

function tracksOf(drawn: readonly SourceRow[]): Track[] {
  const rows = drawn.map((entry) => ({ entry, samples: samplesOf(entry) }));
  if (rows.length <= MAX_SERIES) {
    return rows.map(({ entry: { row }, samples }) => {
      const drift = row.stats?.drift_pct ?? null;
      const label = drift === null ? row.id : `${row.id}, drift ${changeText(drift)}`;
      return { label, rows: [samples] };
    });
  }
  const kinds = [...new Set(rows.map(({ entry }) => entry.row.kind))];
  return kinds.map((kind) => {
    const of = rows.filter(({ entry }) => entry.row.kind === kind).map((r) => r.samples);
    return { label: `${kind.replaceAll("_", " ")}: ${countText(of.length, "row")}`, rows: of };
  });
}

function samplesOf(entry: SourceRow): Sample[] {
  const { row } = entry;
  const sorted = row.samples_ns.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  const median = (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
  return row.samples_ns.map((ns, i) => {
    const order = row.order_index[i] ?? i;
    const y = 100 * median / ns;
    return {
      entry,
      atNs: row.started_offset_ns[i] ?? null,
      x: order,
      y,
      lo: null,
      hi: null,
      title: `${row.id}, sample ${order}\n${y.toFixed(2)}% of the row's median`,
      suspect: row.validity.verdict === "suspect",
    };
  });
}

function legend(tracks: readonly Track[], drawn: readonly SourceRow[]): LegendItem[] {
  return [
    ...tracks.map((t, series): LegendItem => ({ label: t.label, mark: "line", series })),
    ...suspectLegend(drawn),
  ];
}

function heightOf(size: PanelSize): number {
  return size.narrow ? 290 : 340;
}

function drawTracks(
  tracks: readonly Track[],
  size: PanelSize,
  palette: Palette,
): string {
  const samples = tracks.flatMap((t) => t.rows.flat());
  const away = Math.max(2, ...samples.map((s) => Math.abs(s.y - 100))) * 1.15;
  const low = Math.min(...samples.map((s) => s.y)), high = Math.max(...samples.map((s) => s.y));
  // Symmetric unless one side is nearly empty.
  const below = Math.min(away, Math.max(2, 100 - low) * 1.15);
  const above = Math.min(away, Math.max(2, high - 100) * 1.15);
  const domain = [100 - below, 100 + above] as const;
  const xs = samples.map((s) => s.x);
  return drawFrame({
    size,
    height: heightOf(size),
    margin: { top: 44 },
    x: { domain: [Math.min(...xs), Math.max(...xs)], insetLeft: 12, insetRight: 12 },
    y: { domain: [...domain] },
    marks: [
      ...axisY(palette, { label: "", ticks: size.narrow ? 4 : 6, text: (v) => `${v}%` }),
      Plot.ruleY([100], { stroke: palette.muted, className: "median" }),
      axisX(palette, {
        label: "sample, in the order of measurement",
        ticks: wholeTicks(xs, size.narrow ? 5 : 10),
        text: String,
      }),
      timeAxis(samples, size, palette),
      ...tracks.flatMap((t, i) =>
        t.rows.flatMap((row) => driftMarks(row, palette.series[i], domain))
      ),
      ...tracks.flatMap((t, i) =>
        seriesMarks(t.rows.flat(), i, palette, { joined: false, radius: 3.5 })
      ),
    ],
  });
}

/** At most `most` whole numbers over the range, evenly spaced. */
function wholeTicks(xs: readonly number[], most: number): number[] {
  const first = Math.min(...xs), last = Math.max(...xs);
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((s) => (last - first) / s < most) ??
    Math.ceil((last - first) / most);
  const from = Math.ceil(first / step);
  const count = Math.floor(last / step) - from + 1;
  return Array.from({ length: count }, (_, i) => (from + i) * step);
}

/** When samples were taken, above the frame: time need not pass evenly from one to the next. */
function timeAxis(samples: readonly Sample[], size: PanelSize, palette: Palette): Plot.Markish {
  const timed = samples.filter((s) => s.atNs !== null).toSorted((a, b) => a.x - b.x);
  if (timed.length === 0) return null;
  const first = timed[0].x, span = timed[timed.length - 1].x - first || 1;
  const at = timed.map((s) => (s.x - first) / span * (size.width - 92));
  const kept = spaced(at, size.narrow ? 60 : 72).map((i) => timed[i]);
  const times = new Map(kept.map((s) => [s.x, sinceText(s.atNs!)]));
  return axisX(palette, {
    label: "time since the run began",
    ticks: [...times.keys()],
    text: (x) => times.get(x) ?? "",
  }, "top");
}

function sinceText(ns: number): string {
  const s = ns / 1e9;
  if (s < 60) return `${s.toFixed(1)} s`;
  return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
}

/** The row's drift as a line through its middle, cut where it would leave the frame. */
function driftMarks(
  row: readonly Sample[],
  color: string,
  [low, high]: readonly [number, number],
): Plot.Markish[] {
  const drift = row[0].entry.row.stats?.drift_pct ?? null;
  if (drift === null) return [];
  const first = Math.min(...row.map((s) => s.x)), last = Math.max(...row.map((s) => s.x));
  const reach = Math.min(100 - low, high - 100);
  const half = drift === 0 ? 0.5 : Math.min(0.5, reach / Math.abs(drift));
  const ends = [-half, half].map((t) => ({
    x: (first + last) / 2 + t * (last - first),
    y: 100 + t * drift,
  }));
  return [
    Plot.line(ends, { x: "x", y: "y", stroke: color, strokeOpacity: 0.7, className: "drift" }),
  ];
}

function tableOf(tracks: readonly Track[]): DataTable {
  const samples = tracks.flatMap((t) => t.rows.flat()).toSorted((a, b) => a.x - b.x);
  const rows = samples.map((s) => [
    String(s.x),
    s.atNs === null ? "-" : sinceText(s.atNs),
    s.entry.row.id,
    `${s.y.toFixed(2)}%`,
    s.entry.row.validity.verdict,
  ]);
  return { head: ["sample", "begun at", "row", "of median", "verdict"], rows };
}
