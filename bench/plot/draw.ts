/** From reports to pictures: which kinds there are, which of them have something to show. */
import { drawHistory } from "./history_chart.ts";
import type { NamedBaseline } from "./history_data.ts";
import type { Drawing, Picture, PlotKind } from "./picture.ts";
import { DECODE, drawRates, PREFILL } from "./rate_chart.ts";
import { drawSamples } from "./samples_chart.ts";
import type { Omission, Source } from "./source.ts";
import { drawVerify } from "./verify_chart.ts";

type Draw = (sources: readonly Source[], baselines: readonly NamedBaseline[]) => Drawing;

const DRAW: Readonly<Record<PlotKind, Draw>> = {
  decode: (sources) => drawRates(sources, DECODE),
  prefill: (sources) => drawRates(sources, PREFILL),
  verify: drawVerify,
  samples: drawSamples,
  history: drawHistory,
};

export interface Pictures {
  readonly pictures: readonly Picture[];
  /** Kinds without a picture, and why. */
  readonly empty: readonly { readonly kind: PlotKind; readonly why: string }[];
  /** Rows that no picture shows although one would, once each. */
  readonly omitted: readonly Omission[];
}

/** The pictures of the kinds that the reports have something for. */
export function drawPictures(
  sources: readonly Source[],
  kinds: readonly PlotKind[],
  baselines: readonly NamedBaseline[] = [],
): Pictures {
  const drawings = kinds.map((kind) => ({ kind, ...DRAW[kind](sources, baselines) }));
  const omitted = new Map(
    drawings.flatMap((d) => d.omitted).map((o) => [JSON.stringify(o), o] as const),
  );
  return {
    pictures: drawings.flatMap((d) => d.pictures),
    empty: drawings.flatMap(({ kind, empty }) => empty === null ? [] : [{ kind, why: empty }]),
    omitted: [...omitted.values()],
  };
}
