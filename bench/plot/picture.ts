/** What a picture is, before it becomes SVG, PNG or a part of a page. Names and types, nothing runs. */
import type { Palette } from "./palette.ts";
import type { Omission } from "./source.ts";

export const PLOT_KINDS = ["decode", "prefill", "verify", "samples", "history"] as const;
export type PlotKind = typeof PLOT_KINDS[number];
export const PLOT_FORMATS = ["svg", "png", "html"] as const;
export type PlotFormat = typeof PLOT_FORMATS[number];
export const PLOT_THEMES = ["light", "dark"] as const;
export type PlotTheme = typeof PLOT_THEMES[number];

/** How a legend entry is drawn: a series, its limit, or something that all series share. */
export interface LegendItem {
  readonly label: string;
  readonly mark: "line" | "dash" | "rule" | "hollow" | "cross";
  /** Index of the series whose colour and symbol are meant; null: neutral. */
  readonly series: number | null;
}

export interface PanelSize {
  readonly width: number;
  /** Little room: fewer ticks, shorter labels. */
  readonly narrow: boolean;
}

/** One coordinate system: a complete svg element without a namespace. */
export interface Panel {
  readonly heading: string | null;
  readonly svg: string;
  readonly height: number;
}

export interface DataTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Picture {
  /** Stem of file names. */
  readonly name: string;
  readonly kind: PlotKind;
  /** What is shown over what. */
  readonly title: string;
  /** What it says, in numbers. */
  readonly finding: string;
  readonly legend: readonly LegendItem[];
  readonly panels: (size: PanelSize, palette: Palette) => readonly Panel[];
  /** Model, device, plan, limit, where the numbers are from. */
  readonly facts: readonly string[];
  /** What a reader must know before trusting it. */
  readonly notes: readonly string[];
  /** The same numbers as text. */
  readonly table: DataTable;
}

/** The pictures of one kind; none: `empty` says why. */
export interface Drawing {
  readonly pictures: readonly Picture[];
  readonly omitted: readonly Omission[];
  readonly empty: string | null;
}
