/**
 * The plotting library in the hands of this project: one font, one way to draw axes, points, intervals and
 * limits, output as text. Knows marks and scales, not rows.
 */
import { DOMParser } from "linkedom";
import * as Plot from "plot";
import { xmlCharacters } from "./layout.ts";
import { type Palette, SYMBOLS } from "./palette.ts";
import type { PanelSize } from "./picture.ts";

// Names that need no quotes inside an attribute.
export const FONT = "Roboto, system-ui, Helvetica, Arial, sans-serif";
export const FONT_SIZE = 12;

const document = new DOMParser().parseFromString("<!doctype html><html></html>", "text/html");

export interface Point {
  readonly x: number;
  readonly y: number;
  /** Interval of y; null where none is known. */
  readonly lo: number | null;
  readonly hi: number | null;
  /** Says everything about the point. */
  readonly title: string;
  /** Drawn hollow. */
  readonly suspect: boolean;
}

export interface LimitPoint {
  readonly x: number;
  readonly limit: number;
}

/** A piece of a picture and where its axes are. */
export interface Frame {
  readonly size: PanelSize;
  readonly height: number;
  readonly margin?: { left?: number; right?: number; top?: number; bottom?: number };
  readonly x: Plot.ScaleOptions;
  readonly y: Plot.ScaleOptions;
  readonly marks: Plot.Markish[];
}

/** Draws a frame: the text of one svg element, without namespace and style sheet. */
export function drawFrame({ size, height, margin = {}, x, y, marks }: Frame): string {
  const figure = Plot.plot({
    document,
    width: size.width,
    height,
    marginLeft: margin.left ?? 52,
    marginRight: margin.right ?? 16,
    marginTop: margin.top ?? 24,
    marginBottom: margin.bottom ?? 40,
    className: "chart",
    style: { fontFamily: FONT, fontSize: `${FONT_SIZE}px`, background: "none" },
    x: { axis: null, ...x },
    y: { axis: null, ...y },
    marks,
  });
  return xmlCharacters(String(figure.outerHTML).replace(/<style>.*?<\/style>/s, ""));
}

export interface Axis {
  readonly label: string;
  readonly ticks: number[] | number;
  /** Not a tick format: a logarithmic axis drops labels of those. */
  readonly text?: (value: number) => string;
}

/** A horizontal axis below, or above, the frame. */
export function axisX(palette: Palette, axis: Axis, anchor: "bottom" | "top" = "bottom") {
  return Plot.axisX({
    anchor,
    ticks: axis.ticks,
    text: axis.text,
    tickSize: 4,
    color: palette.muted,
    label: axis.label,
    labelAnchor: "center",
    labelArrow: "none",
    className: "axis-x",
  });
}

/** A vertical axis on the left with lines across; its label stands above it. */
export function axisY(palette: Palette, axis: Axis) {
  return [
    Plot.gridY({ ticks: axis.ticks, stroke: palette.grid, strokeOpacity: 1 }),
    Plot.axisY({
      ticks: axis.ticks,
      text: axis.text,
      tickSize: 0,
      color: palette.muted,
      label: axis.label,
      labelAnchor: "top",
      labelArrow: "none",
      className: "axis-y",
    }),
  ];
}

/** A symbol: a level stroke. Plot's own markers would need ids that are unique in a page. */
function stroke(half: number) {
  return {
    draw(context: { moveTo(x: number, y: number): void; lineTo(x: number, y: number): void }) {
      context.moveTo(-half, 0);
      context.lineTo(half, 0);
    },
  };
}

const CAP = stroke(4);
/** For a limit that is known at one of several places. */
const SHORT_LIMIT = stroke(11);

/** Points of one series with their intervals, joined by a line where `joined`. */
export function seriesMarks(
  points: readonly Point[],
  series: number,
  palette: Palette,
  { joined = true, radius = 4 } = {},
): Plot.Markish[] {
  const color = palette.series[series];
  const withInterval = points.filter((p) => p.lo !== null && p.hi !== null);
  return [
    joined ? Plot.line(points, { x: "x", y: "y", stroke: color, strokeWidth: 1.75 }) : null,
    Plot.ruleX(withInterval, {
      x: "x",
      y1: "lo",
      y2: "hi",
      stroke: color,
      strokeWidth: 1.5,
      className: "interval",
    }),
    ...["lo", "hi"].map((y) =>
      Plot.dot(withInterval, { x: "x", y, symbol: CAP, stroke: color, strokeWidth: 1.5 })
    ),
    Plot.dot(points.filter((p) => Number.isFinite(p.y)), {
      x: "x",
      y: "y",
      r: radius,
      symbol: SYMBOLS[series],
      stroke: color,
      strokeWidth: 1.75,
      fill: (p: Point) => p.suspect ? palette.paper : color,
      title: "title",
      className: "points",
    }),
  ];
}

/** A dashed limit: a line through its points, or across the frame where all is at `onlyPlace`. */
export function limitMarks(
  points: readonly LimitPoint[],
  color: string,
  onlyPlace: boolean,
): Plot.Markish[] {
  const style = {
    stroke: color,
    strokeWidth: 1.5,
    strokeDasharray: "6 4",
    className: "limit",
  };
  if (points.length === 0) return [];
  if (onlyPlace) return [Plot.ruleY(points, { y: "limit", ...style })];
  if (points.length === 1) {
    return [Plot.dot(points, { x: "x", y: "limit", symbol: SHORT_LIMIT, ...style })];
  }
  return [Plot.line(points, { x: "x", y: "limit", ...style })];
}

/** The colour of the limit of a series; neutral where `series` is null. */
export function limitColor(series: number | null, palette: Palette): string {
  return series === null ? palette.ink : palette.series[series];
}

export { Plot };
