/**
 * Whether a chunk of rows computes what the same tokens compute one by one. Owns the comparison of logits
 * and its bounds; plays nothing.
 */
import type { FormCheck } from "./port.ts";

export interface Forms {
  /** Logits of all rows of one play, [rows, vocab]. */
  readonly chunk: Float32Array;
  /** Of the same tokens one by one. */
  readonly oneRow: readonly Float32Array[];
  /** Of the same tokens without the plan's rounding of activations; null for a plan that has none. */
  readonly exact: readonly Float32Array[] | null;
  /** Share of equal choices of experts; null without experts. */
  readonly routingMatch: number | null;
}

/** Squared error of logits relative to their square that another order of f32 sums may make. */
const ORDER_NMSE = 1e-4;
/** Two results that each lie so far from a third one lie at most twice as far apart: four times in squares. */
const BETWEEN_TWO = 4;
/** Experts are compared with all earlier choices made equal, so only near ties may differ. */
const ROUTING_MATCH_MIN = 0.85;
/** How far the largest of many errors may lie beyond their root mean square. */
const EXTREME = 5;

/**
 * Forms that sum in different orders round some 8-bit activations differently, which later layers amplify;
 * how much is a matter of the weights. So the bound is what the rounding as a whole does to these very
 * tokens: the two forms may lie as far apart as two results can that each lie so far from the exact one.
 */
export function compareForms({ chunk, oneRow, exact, routingMatch }: Forms): FormCheck {
  const vocab = oneRow[0].length;
  const chunkRow = (row: number) => chunk.subarray(row * vocab, (row + 1) * vocab);
  const farthest = (of: (row: number) => Float32Array) =>
    Math.max(...(exact ?? []).map((want, row) => nmse(of(row), want)));
  // The nearer of the two: a form that is wrong must not widen the bound by its own error.
  const rounding = exact && Math.min(farthest((row) => oneRow[row]), farthest(chunkRow));
  const bound = Math.max(ORDER_NMSE, BETWEEN_TWO * (rounding ?? 0));
  let matched = 0, firstDivergence: number | null = null, most = 0;
  oneRow.forEach((want, row) => {
    const got = chunkRow(row);
    most = Math.max(most, nmse(got, want));
    if (sameToken(got, want, bound)) matched++;
    else firstDivergence ??= row;
  });
  return {
    compared: oneRow.length,
    matched,
    firstDivergence,
    maxLogitNmse: finite(most),
    roundingNmse: rounding === null ? null : finite(rounding),
    routingMatch,
    ok: most <= bound && Number.isFinite(bound) && matched === oneRow.length &&
      (routingMatch ?? 1) >= ROUTING_MATCH_MIN,
  };
}

function finite(x: number): number {
  return Number.isFinite(x) ? x : Number.MAX_VALUE;
}

/** Infinite where anything is not a number. */
function nmse(got: Float32Array, want: Float32Array): number {
  let error = 0, power = 0;
  for (let i = 0; i < want.length; i++) {
    const d = got[i] - want[i];
    error += d * d;
    power += want[i] * want[i];
  }
  const relative = error === 0 ? 0 : error / power;
  return relative >= 0 ? relative : Infinity;
}

/** Tokens that lie closer together than the two forms differ, and may differ, count as the same. */
function sameToken(got: Float32Array, want: Float32Array, bound: number): boolean {
  let power = 0, most = 0, a = 0, b = 0;
  for (let i = 0; i < want.length; i++) {
    power += want[i] * want[i];
    most = Math.max(most, Math.abs(got[i] - want[i]));
    if (got[i] > got[a]) a = i;
    if (want[i] > want[b]) b = i;
  }
  const allowed = Math.min(most, EXTREME * Math.sqrt(bound * power / want.length));
  // NaN fails every comparison.
  return want[b] - want[a] <= 2 * allowed && got[a] >= got[b];
}
