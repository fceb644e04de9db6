/** What ops of speculative rounds share: the inputs of their cases, and how a run takes a token. */
import type { Fill } from "../define.ts";
import { HALT, STEP, STOPS_MAX } from "../step.ts";

/** A step block that knows only how many rows its round made final: `committed` of the case. */
export const fillCommitted: Fill = (s) =>
  Uint32Array.from({ length: s.stepWords }, (_, w) => w === STEP.committed ? s.committed : 0);

/** What belongs to one layer of a tensor of all of them. */
export function layerOf(t: Float64Array, layer: number, layers: number): Float64Array {
  const size = t.length / layers;
  return t.subarray(layer * size, (layer + 1) * size);
}

/** Position `at` gets a sampled token: history, sampled, produced, and halt where it ends the run. */
export function takeToken(
  step: Uint32Array,
  history: Uint32Array,
  token: number,
  at: number,
): void {
  if (at < history.length) history[at] = token;
  step[STEP.sampled] = token;
  step[STEP.produced]++;
  const stops = step.subarray(STEP.stopIds, STEP.stopIds + Math.min(step[STEP.stops], STOPS_MAX));
  if (stops.includes(token)) step[STEP.halt] = HALT.stopToken;
  else if (step[STEP.produced] >= step[STEP.limit]) step[STEP.halt] = HALT.budget;
  else if (at >= history.length) step[STEP.halt] = HALT.contextFull;
}
