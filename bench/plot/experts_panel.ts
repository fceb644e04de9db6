/** How many experts the rows of one play use together in a layer: why verification of a mixture costs what it does. */
import type { CostCurve } from "./verify_chart.ts";
import { axisX, axisY, drawFrame, Plot, type Point, seriesMarks } from "./canvas.ts";
import { spaced } from "./layout.ts";
import type { Palette } from "./palette.ts";
import type { Panel, PanelSize } from "./picture.ts";

/** Nothing where no row has experts. */
export function drawExperts(
  curves: readonly CostCurve[],
  size: PanelSize,
  palette: Palette,
): Panel[] {
  const unions = curves.map(({ points }) => points.flatMap(unionOf));
  const all = unions.flat();
  if (all.length === 0) return [];
  const places = [...new Set(all.map((p) => p.x))].sort((a, b) => a - b);
  const right = Math.max(2, ...places) + 0.5, room = (size.width - 70) / right;
  const height = size.narrow ? 180 : 210;
  const svg = drawFrame({
    size,
    height,
    x: { domain: [0, right] },
    y: { domain: [0, 1.12 * Math.max(...all.map((p) => p.y))] },
    marks: [
      ...axisY(palette, { label: "distinct experts in a layer", ticks: 4 }),
      Plot.ruleY([0], { stroke: palette.muted }),
      axisX(palette, {
        label: "tokens T in one play",
        ticks: spaced(places.map((p) => p * room), 24).map((i) => places[i]),
        text: String,
      }),
      ...unions.flatMap((points, i) => seriesMarks(points, i, palette)),
    ],
  });
  return [{ heading: "Experts that these tokens use together", svg, height }];
}

function unionOf({ x, entry, suspect }: CostCurve["points"][number]): Point[] {
  const { moe } = entry.row;
  if (!moe) return [];
  const y = moe.distinct_experts_mean;
  return [{ x, y, lo: null, hi: null, title: `${y.toFixed(1)} experts for ${x}`, suspect }];
}
