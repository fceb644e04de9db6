/** Rates over what grows: decode over context depth, prefill over prompt length, each below its limit. */
import type { Row } from "../report.ts";
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
import {
  factLines,
  intervalLine,
  limitLine,
  noteLines,
  pointTitle,
  suspectLegend,
} from "./caption.ts";
import { spaced } from "./layout.ts";
import { axisText, logTicks, percentText, rateText, spanText, tokensText } from "./numbers.ts";
import { MAX_SERIES, type Palette } from "./palette.ts";
import type { Drawing, LegendItem, PanelSize, PlotKind } from "./picture.ts";
import { group, type Series, type Setting } from "./series.ts";
import { type Omission, select, type Source, type SourceRow } from "./source.ts";

interface RateKind {
  readonly kind: PlotKind & Row["kind"];
  readonly title: string;
  readonly place: string;
  readonly label: string;
  readonly x: (row: Row) => number;
  readonly settings: readonly Setting[];
}

export const DECODE: RateKind = {
  kind: "decode",
  title: "Decode rate over context depth",
  place: "depth",
  label: "tokens already in context",
  x: (row) => row.params.n_depth,
  settings: ["gen", "calls", "chunk", "threads", "tokens", "seed"],
};

export const PREFILL: RateKind = {
  kind: "prefill",
  title: "Prefill rate over prompt length",
  place: "T =",
  label: "prompt tokens T",
  x: (row) => row.params.n_prompt,
  settings: ["depth", "chunk", "threads", "tokens", "seed"],
};

interface Line {
  readonly label: string;
  readonly points: readonly Point[];
  readonly limits: readonly LimitPoint[];
}

/** One picture with a line a series. */
export function drawRates(sources: readonly Source[], kind: RateKind): Drawing {
  const { drawn, omitted } = select(sources, (row) => row.kind === kind.kind);
  if (drawn.length === 0) return { pictures: [], omitted, empty: `no ${kind.kind} row to draw` };
  const { all, settings } = seriesOf(drawn, kind);
  const shown = all.slice(-MAX_SERIES);
  const left = [...omitted, ...crowded(all.slice(0, -MAX_SERIES))];
  const rows = shown.flatMap((s) => s.rows);
  const lines = shown.map((s) => lineOf(s, kind));
  return {
    pictures: [{
      name: kind.kind,
      kind: kind.kind,
      title: kind.title,
      finding: finding(lines, rows, kind),
      legend: legend(lines, rows),
      panels: (size, palette) => [{
        heading: null,
        svg: drawLines(lines, kind, size, palette),
        height: size.narrow ? 280 : 340,
      }],
      facts: [limitLine(rows), intervalLine(rows), ...factLines(shown, settings)],
      notes: noteLines(rows, left, sources.length > 1),
      table: tableOf(shown, kind),
    }],
    omitted: left,
    empty: null,
  };
}

/** Samples of different lengths go into one line, unless two of them are at the same place. */
function seriesOf(rows: readonly SourceRow[], kind: RateKind) {
  const fewer = kind.settings.filter((s) => s !== "gen");
  const joined = group(rows, fewer);
  const clash = joined.some((s) =>
    new Set(s.rows.map(({ row }) => kind.x(row))).size < s.rows.length
  );
  return clash
    ? { all: group(rows, kind.settings), settings: kind.settings }
    : { all: joined, settings: fewer };
}

/** Rows of series for which no colour is left. */
export function crowded(series: readonly Series[]): Omission[] {
  return series.flatMap((s) => s.rows).map(({ source, row }) => ({
    source: source.name,
    row: row.id,
    why: `more than ${MAX_SERIES} series; the last ones are drawn`,
  }));
}

function lineOf({ label, rows }: Series, kind: RateKind): Line {
  const sorted = rows.toSorted((a, b) => kind.x(a.row) - kind.x(b.row));
  const points = sorted.map((entry) => {
    const { row } = entry, { stats } = row;
    return {
      x: kind.x(row),
      y: stats!.median_tps!,
      lo: stats!.ci95?.[0] ?? null,
      hi: stats!.ci95?.[1] ?? null,
      title: pointTitle(entry, `${rateText(stats!.median_tps!)} tokens/s${ofLimit(row)}`),
      suspect: row.validity.verdict === "suspect",
    };
  });
  const limits = sorted.flatMap(({ row }) =>
    row.limit?.tps_limit ? [{ x: kind.x(row), limit: row.limit.tps_limit }] : []
  );
  return { label, points, limits };
}

function share(row: Row): number | null {
  return row.limit?.tps_limit ? row.stats!.median_tps! / row.limit.tps_limit : null;
}

function ofLimit(row: Row): string {
  const s = share(row);
  return s === null ? "" : ` (${percentText(s)} of the limit)`;
}

function finding(lines: readonly Line[], rows: readonly SourceRow[], kind: RateKind): string {
  if (lines.length === 1) {
    const sorted = rows.toSorted((a, b) => kind.x(a.row) - kind.x(b.row));
    const ends = [...new Set([sorted[0], sorted.at(-1)!])];
    return ends.map(({ row }) =>
      `${rateText(row.stats!.median_tps!)} tokens/s at ${kind.place} ${tokensText(kind.x(row))}` +
      ofLimit(row)
    ).join(", ");
  }
  const shares = rows.flatMap(({ row }) => share(row) ?? []);
  const rates = spanText(rows.map(({ row }) => row.stats!.median_tps!), rateText);
  const limit = shares.length === 0 ? "" : `, ${spanText(shares, percentText)} of the limit`;
  return `${rates} tokens/s${limit}`;
}

/** Whether all series have the same limit, so that one line says it. */
function sharedLimit(lines: readonly Line[]): boolean {
  const at = (line: Line) => JSON.stringify(line.limits.map((l) => [l.x, l.limit.toPrecision(3)]));
  return lines.every((line) => at(line) === at(lines[0]));
}

function legend(lines: readonly Line[], rows: readonly SourceRow[]): LegendItem[] {
  const limited = lines.flatMap((line, i) => line.limits.length > 0 ? [i] : []);
  const dashed: LegendItem[] = limited.length === 0 ? [] : [{
    label: sharedLimit(lines) ? "hardware limit" : "hardware limit of each",
    mark: "dash",
    series: null,
  }];
  return [
    ...lines.map((line, series): LegendItem => ({ label: line.label, mark: "line", series })),
    ...dashed,
    ...suspectLegend(rows),
  ];
}

// Beyond this ratio the lower curves would lie on the axis.
const LINEAR_RATIO = 12;

function drawLines(
  lines: readonly Line[],
  kind: RateKind,
  size: PanelSize,
  palette: Palette,
): string {
  const rates = lines.flatMap((l) => l.points.flatMap((p) => [p.y, p.lo ?? p.y, p.hi ?? p.y]));
  const values = [...rates, ...lines.flatMap((l) => l.limits.map((p) => p.limit))];
  const low = Math.min(...values.filter((v) => v > 0)), high = Math.max(...values);
  const log = high / low > LINEAR_RATIO;
  const domain = log ? [low / 1.5, high * 1.3] : [0, high * 1.08];
  const { scale, ticks } = xScale(lines.flatMap((l) => l.points.map((p) => p.x)), size);
  const shared = sharedLimit(lines);
  const only = lines.length === 1 && lines[0].points.length <= (size.narrow ? 4 : 8);
  return drawFrame({
    size,
    height: size.narrow ? 280 : 340,
    x: scale,
    y: log ? { type: "log", domain } : { domain },
    marks: [
      ...axisY(palette, {
        label: `tokens per second${log ? " (log scale)" : ""}`,
        ticks: log ? logTicks(domain[0], domain[1]) : size.narrow ? 4 : 6,
        text: axisText,
      }),
      Plot.ruleY(log ? [] : [0], { stroke: palette.muted }),
      axisX(palette, { label: axisLabel(kind.label, scale.type), ticks, text: tokensText }),
      ...lines.slice(0, shared ? 1 : undefined).flatMap((line, i) =>
        limitMarks(line.limits, limitColor(shared ? null : i, palette), ticks.length === 1)
      ),
      ...lines.flatMap((line, i) => seriesMarks(line.points, i, palette)),
      only ? shareMarks(lines[0], palette) : null,
    ],
  });
}

function axisLabel(label: string, type: Plot.ScaleOptions["type"]): string {
  return type === "log" || type === "symlog" ? `${label} (log scale)` : label;
}

/** The share of the limit below each point and its interval. */
function shareMarks(line: Line, palette: Palette): Plot.Markish {
  const limits = new Map(line.limits.map((l) => [l.x, l.limit]));
  return Plot.text(line.points.filter((p) => limits.has(p.x)), {
    x: "x",
    y: (p: Point) => p.lo ?? p.y,
    text: (p: Point) => percentText(p.y / limits.get(p.x)!),
    dy: 15,
    fill: palette.muted,
    stroke: palette.paper,
    strokeWidth: 4,
    className: "shares",
  });
}

/** Logarithmic where places are far apart; zero has a place of its own then. */
function xScale(places: readonly number[], size: PanelSize) {
  const xs = [...new Set(places)].sort((a, b) => a - b);
  const first = xs[0], last = xs[xs.length - 1];
  const least = xs.find((x) => x > 0) ?? 1;
  const room = size.width - 110;
  if (xs.length === 1) {
    const scale: Plot.ScaleOptions = { domain: first === 0 ? [-1, 1] : [0, 2 * first] };
    return { scale, ticks: xs };
  }
  const log = last / least > 6;
  const place = (x: number) => log ? Math.log1p(x / least) : x;
  const span = place(last) - place(first);
  const at = xs.map((x) => (place(x) - place(first)) / span * room);
  const inset = { insetLeft: 18, insetRight: 18 };
  const scale: Plot.ScaleOptions = !log
    ? { domain: [first, last], ...inset }
    : first > 0
    ? { type: "log", base: 2, domain: [first, last], ...inset }
    : { type: "symlog", constant: least, domain: [0, last], ...inset };
  return { scale, ticks: spaced(at, 42).map((i) => xs[i]) };
}

function tableOf(series: readonly Series[], kind: RateKind) {
  const rows = series.flatMap((s) =>
    s.rows.map(({ row }) => [
      s.label,
      row.id,
      tokensText(kind.x(row)),
      rateText(row.stats!.median_tps!),
      row.stats!.ci95 ? row.stats!.ci95.map(rateText).join(" to ") : "-",
      String(row.stats!.n),
      row.limit?.tps_limit ? rateText(row.limit.tps_limit) : "-",
      row.limit?.tps_limit ? percentText(share(row)!) : "-",
      row.validity.verdict,
    ])
  );
  const x = kind.kind === "decode" ? "depth" : "T";
  const head = ["series", "row", x, "tokens/s", "95% CI", "n", "limit", "share", "verdict"];
  return { head, rows };
}
