/**
 * Colours of pictures. A picture names what a colour is for; this file says which it is on light paper, on
 * dark paper, and as CSS variables that follow the reader's setting. Draws nothing.
 */

export interface Palette {
  /** One a series, told apart also with colour-blind eyes; each series has a symbol of its own besides. */
  readonly series: readonly string[];
  readonly ink: string;
  readonly muted: string;
  readonly grid: string;
  readonly paper: string;
}

export const LIGHT: Palette = {
  series: ["#258fc7", "#c47208", "#269861", "#361a6f", "#6e3d00", "#576774", "#0e81f6", "#680027"],
  ink: "#1b1f24",
  muted: "#57606a",
  grid: "#d9dee3",
  paper: "#ffffff",
};

export const DARK: Palette = {
  series: ["#61bcfc", "#c4670a", "#71f29b", "#b85a9a", "#ebcc45", "#cce8ee", "#3a80e8", "#c05c60"],
  ink: "#e6e9ed",
  muted: "#a0a9b4",
  grid: "#343b44",
  paper: "#14181d",
};

/** Symbols in the order of the colours, by Plot's names. */
export const SYMBOLS = [
  "circle",
  "square",
  "triangle",
  "diamond",
  "star",
  "wye",
  "cross",
  "hexagon",
] as const;

/** Most series that a picture can tell apart. */
export const MAX_SERIES = SYMBOLS.length;

const NAMES = ["ink", "muted", "grid", "paper"] as const;

/** The palette whose colours are variables of `cssVariables`. */
export const CSS: Palette = {
  series: LIGHT.series.map((_, i) => `var(--s${i})`),
  ink: "var(--ink)",
  muted: "var(--muted)",
  grid: "var(--grid)",
  paper: "var(--paper)",
};

/** Declarations that give the variables of `CSS` the colours of a palette. */
export function cssVariables(palette: Palette): string {
  const named = NAMES.map((name) => `--${name}: ${palette[name]};`);
  return [...named, ...palette.series.map((c, i) => `--s${i}: ${c};`)].join(" ");
}
