/**
 * What it costs to verify T tokens in one play, in steps of serial decode: V(T) / S. Below the line "one by
 * one" a play of T rows beats T steps; the limit is what its bytes allow.
 */
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
import { countText, spanText } from "./numbers.ts";
import { MAX_SERIES, type Palette } from "./palette.ts";
import type { DataTable, Drawing, LegendItem, PanelSize } from "./picture.ts";
import { crowded } from "./rate_chart.ts";
import { group, modelText, type Series, type Setting } from "./series.ts";
import { curveAt } from "../verify_curves.ts";
import { drawExperts } from "./experts_panel.ts";
import { type Omission, refusalOf, select, type Source, type SourceRow } from "./source.ts";

const SETTINGS: readonly Setting[] = ["depth", "chunk", "threads", "tokens", "seed"];

const SWEPT =
  "Rounds of a sweep: the least tenth of their times over that of the steps timed beside them.";

interface CostPoint extends Point {
  readonly entry: SourceRow;
  /** Least cost that bytes and bandwidth allow. */
  readonly limit: number | null;
}

export interface CostCurve {
  readonly label: string;
  readonly points: readonly CostPoint[];
}

/** One picture with a curve a series; rows without a serial step to hold them against are left out. */
export function drawVerify(sources: readonly Source[]): Drawing {
  const chosen = select(sources, (row) => row.kind === "verify");
  const drawn = chosen.drawn.filter((entry) => serialStep(entry) !== null);
  const alone = chosen.drawn.filter((entry) => serialStep(entry) === null).map(withoutStep);
  const omitted = [...chosen.omitted, ...alone];
  if (drawn.length === 0) return { pictures: [], omitted, empty: "no verify row to draw" };
  const all = group(drawn, SETTINGS);
  const shown = all.slice(-MAX_SERIES);
  const left = [...omitted, ...crowded(all.slice(0, -MAX_SERIES))];
  const rows = shown.flatMap((s) => s.rows);
  const curves = shown.map(curveOf);
  const used = withSteps(rows);
  return {
    pictures: [{
      name: "verify",
      kind: "verify",
      title: "Cost of verifying T tokens in one play",
      finding: finding(curves),
      legend: legend(curves, used),
      panels: (size, palette) => [
        { heading: null, svg: drawCurves(curves, size, palette), height: heightOf(size) },
        ...drawExperts(curves, size, palette),
      ],
      facts: [
        stepLine(rows),
        ...rows.some((entry) => entry.row.rounds) ? [SWEPT] : [],
        limitLine(rows),
        intervalLine(rows),
        ...factLines(shown, SETTINGS),
      ],
      notes: noteLines(used, left, sources.length > 1),
      table: tableOf(curves),
    }],
    omitted: left,
    empty: null,
  };
}

function withoutStep({ source, row }: SourceRow): Omission {
  const why = `no decode row and no verify row of one token at depth ${row.params.n_depth}`;
  return { source: source.name, row: row.id, why };
}

/** The rows and the steps that they are held against, once each. */
function withSteps(rows: readonly SourceRow[]): SourceRow[] {
  const steps = rows.map((entry) => ({ source: entry.source, row: serialStep(entry)! }));
  return [...new Map([...rows, ...steps].map((entry) => [entry.row, entry])).values()];
}

/** The row whose tokens are serial steps at the same place: decode, else verification of one token. */
function serialStep({ source, row }: SourceRow): Row | null {
  const same = source.report.rows.filter((other) =>
    refusalOf(other) === null && !!other.stats?.median_tps &&
    other.params.n_depth === row.params.n_depth && other.params.kv_type === row.params.kv_type &&
    other.params.threads === row.params.threads &&
    other.params.prefill_rows === row.params.prefill_rows
  );
  return same.find((r) => r.kind === "decode") ??
    same.find((r) => r.kind === "verify" && r.params.rows === 1) ?? null;
}

function curveOf({ label, rows }: Series): CostCurve {
  const sorted = rows.toSorted((a, b) => a.row.params.rows! - b.row.params.rows!);
  return { label, points: sorted.map(costOf) };
}

/** A row's time over the step's. Their intervals are independent: logarithms add up in squares. */
function costOf(entry: SourceRow): CostPoint {
  const { row } = entry, step = serialStep(entry)!;
  const rows = row.params.rows!, stepRate = step.stats!.median_tps!;
  const cost = sweptCost(entry) ?? rows * stepRate / row.stats!.median_tps!;
  const halves = row === step ? [0, 0] : [logHalf(row), logHalf(step)];
  const factor = halves.includes(null) ? null : Math.exp(Math.hypot(...halves as number[]));
  const limit = row.limit?.tps_limit;
  return {
    entry,
    x: rows,
    y: cost,
    lo: factor && cost / factor,
    hi: factor && cost * factor,
    limit: limit ? rows * stepRate / limit : null,
    title: pointTitle(entry, `${cost.toFixed(2)} steps for ${countText(rows, "token")}`),
    suspect: row.validity.verdict === "suspect" || step.validity.verdict === "suspect",
  };
}

/** What a sweep found for its rounds, which have steps of their own beside them. */
function sweptCost({ source, row }: SourceRow): number | null {
  const curve = row.rounds ? curveAt(source.report.rows, row) : null;
  const point = curve?.points.find((p) => p.rows === row.params.rows);
  return curve && point ? point.verifyNs / curve.stepNs : null;
}

/** Half of an interval's width as a logarithm; null where it is unknown or reaches zero. */
function logHalf({ stats }: Row): number | null {
  const interval = stats!.ci95;
  return interval && interval[0] > 0 ? Math.log(interval[1] / interval[0]) / 2 : null;
}

function finding(curves: readonly CostCurve[]): string {
  const last = curves.flatMap((c) => c.points.slice(-1));
  const most = Math.max(...last.map((p) => p.x));
  const costs = last.filter((p) => p.x === most).map((p) => p.y);
  const limits = last.flatMap((p) => p.x === most && p.limit !== null ? [p.limit] : []);
  const text = (n: number) => n.toFixed(2);
  const limit = limits.length === 0 ? "" : `; the limit is ${spanText(limits, text)}`;
  return `${countText(most, "token")} in one play cost ${
    spanText(costs, text)
  } decode steps${limit}`;
}

function stepLine(rows: readonly SourceRow[]): string {
  const kinds = new Set(rows.map((entry) => serialStep(entry)!.kind));
  const step = kinds.size > 1
    ? "a decode step or a verification of one token"
    : kinds.has("decode")
    ? "one decode step"
    : "the verification of one token";
  return `V(T) / S: time of one play with T rows over the time S of ${step} at the same depth.`;
}

function legend(curves: readonly CostCurve[], rows: readonly SourceRow[]): LegendItem[] {
  const limited = curves.some((c) => c.points.some((p) => p.limit !== null));
  const limit = curves.length === 1 ? "hardware limit" : "hardware limit of each";
  return [
    ...curves.map((c, series): LegendItem => ({ label: c.label, mark: "line", series })),
    ...limited ? [{ label: limit, mark: "dash", series: null } as const] : [],
    { label: "one by one: T steps", mark: "rule", series: null },
    ...suspectLegend(rows),
  ];
}

function heightOf(size: PanelSize): number {
  return size.narrow ? 280 : 340;
}

function drawCurves(curves: readonly CostCurve[], size: PanelSize, palette: Palette): string {
  const points = curves.flatMap((c) => c.points);
  const limits = points.flatMap((p) => p.limit ?? []);
  const top = 1.12 * Math.max(1, ...limits, ...points.map((p) => p.hi ?? p.y));
  const right = Math.max(2, ...points.map((p) => p.x)) + 0.5;
  const places = [...new Set(points.map((p) => p.x))].sort((a, b) => a - b);
  const room = (size.width - 70) / right;
  const serial = [1, Math.min(top, right)].map((v) => ({ x: v, y: v }));
  return drawFrame({
    size,
    height: heightOf(size),
    x: { domain: [0, right] },
    y: { domain: [0, top] },
    marks: [
      ...axisY(palette, { label: "V(T) / S: cost in decode steps", ticks: size.narrow ? 4 : 6 }),
      Plot.ruleY([0], { stroke: palette.muted }),
      axisX(palette, {
        label: "tokens T in one play",
        ticks: spaced(places.map((p) => p * room), 24).map((i) => places[i]),
        text: String,
      }),
      Plot.line(serial, {
        x: "x",
        y: "y",
        stroke: palette.muted,
        strokeWidth: 1.25,
        className: "one-by-one",
      }),
      ...curves.flatMap((curve, i) =>
        limitMarks(
          limitsOf(curve),
          limitColor(curves.length === 1 ? null : i, palette),
          places.length === 1,
        )
      ),
      ...curves.flatMap((curve, i) => seriesMarks(curve.points, i, palette)),
    ],
  });
}

function limitsOf(curve: CostCurve): LimitPoint[] {
  return curve.points.flatMap(({ x, limit }) => limit === null ? [] : [{ x, limit }]);
}

function tableOf(curves: readonly CostCurve[]): DataTable {
  const rows = curves.flatMap((c) =>
    c.points.map(({ entry: { source, row }, ...p }) => [
      c.label,
      row.id,
      modelText(source),
      String(p.x),
      p.y.toFixed(3),
      p.lo === null ? "-" : `${p.lo.toFixed(3)} to ${p.hi!.toFixed(3)}`,
      String(row.stats!.n),
      p.limit === null ? "-" : p.limit.toFixed(3),
      row.moe ? row.moe.distinct_experts_mean.toFixed(1) : "-",
      row.validity.verdict,
    ])
  );
  const head = [
    ...["series", "row", "model", "T", "V(T)/S", "95% CI", "n", "limit", "experts"],
    "verdict",
  ];
  return { head, rows };
}
