/** The legend of a picture: entries in lines that fit the width. */
import { drawFrame, FONT_SIZE, limitColor, Plot } from "./canvas.ts";
import { textWidth, wrap } from "./layout.ts";
import { type Palette, SYMBOLS } from "./palette.ts";
import type { LegendItem, Panel, PanelSize } from "./picture.ts";

const KEY = 26;
const LINE = 20;
const LINE_HEIGHT = 1.25;
const GAP = 12;

interface Placed {
  readonly item: LegendItem;
  readonly lines: readonly string[];
  readonly x: number;
  readonly y: number;
}

/** Room for the key of an entry. */
function keyWidth(item: LegendItem): number {
  return item.mark === "hollow" || item.mark === "cross" ? 10 : KEY;
}

/** Draws a legend of the width of its picture. */
export function drawLegend(
  items: readonly LegendItem[],
  size: PanelSize,
  palette: Palette,
): Panel {
  const placed = place(items, size.width);
  const bottom = placed.map((p) => p.y + (p.lines.length - 1) * FONT_SIZE * LINE_HEIGHT);
  const height = Math.ceil(Math.max(0, ...bottom) + LINE / 2 + 4);
  const keys = placed.flatMap((p) => keyMarks(p, palette));
  const labels = Plot.text(placed, {
    x: (p: Placed) => p.x + keyWidth(p.item) + 6,
    y: "y",
    text: (p: Placed) => p.lines.join("\n"),
    textAnchor: "start",
    lineAnchor: "top",
    lineHeight: LINE_HEIGHT,
    dy: -FONT_SIZE / 2,
    fill: palette.ink,
    className: "legend",
  });
  const svg = drawFrame({
    size,
    height,
    margin: { left: 0, right: 0, top: 0, bottom: 0 },
    x: { type: "identity" },
    y: { type: "identity" },
    marks: [...keys, labels],
  });
  return { heading: null, svg, height };
}

/** Entry after entry; one that is wider than the picture goes on below itself. */
function place(items: readonly LegendItem[], width: number): Placed[] {
  let x = 0, y = LINE / 2;
  return items.map((item) => {
    const key = keyWidth(item) + 6;
    const lines = wrap(item.label, width - key, FONT_SIZE);
    const wide = key + Math.max(...lines.map((l) => textWidth(l, FONT_SIZE)));
    if (x > 0 && x + wide > width) {
      x = 0;
      y += LINE;
    }
    const placed = { item, lines, x, y };
    x += wide + GAP;
    if (lines.length > 1) {
      x = Infinity;
      y += (lines.length - 1) * FONT_SIZE * LINE_HEIGHT;
    }
    return placed;
  });
}

function keyMarks({ item, x, y }: Placed, palette: Palette): Plot.Markish[] {
  const color = limitColor(item.series, palette);
  const line = (stroke: string, dashes?: string) =>
    Plot.link([0], {
      x1: x,
      x2: x + KEY,
      y1: y,
      y2: y,
      stroke,
      strokeWidth: 1.75,
      strokeDasharray: dashes,
    });
  const dot = (options: Plot.DotOptions) =>
    Plot.dot([0], {
      x: x + keyWidth(item) / 2,
      y,
      r: 4,
      strokeWidth: 1.75,
      stroke: color,
      ...options,
    });
  switch (item.mark) {
    case "line":
      return [line(color), dot({ fill: color, symbol: SYMBOLS[item.series ?? 0] })];
    case "dash":
      return [line(color, "6 4")];
    case "rule":
      return [line(palette.muted)];
    case "hollow":
      return [dot({ fill: palette.paper })];
    case "cross":
      return [dot({ symbol: "times" })];
  }
}
