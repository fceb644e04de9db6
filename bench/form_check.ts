/**
 * Whether a chunk of rows computes what the same tokens compute one by one. Owns the comparison of logits
 * and its bounds; plays nothing.
 */
import type { FormCheck } from "./port.ts";

/**
 * Squared error of logits relative to their square. 8-bit activations round the inputs of each form in
 * their own way, up to about 1e-2 of a product; exact forms differ by the order of f32 sums.
 */
export const NMSE_MAX = { actInt8: 1e-2, exact: 1e-6 };

export function compareLogits(
  chunk: Float32Array,
  oneRow: readonly Float32Array[],
  nmseMax: number,
): FormCheck {
  let matched = 0, firstDivergence: number | null = null, maxLogitNmse = 0;
  oneRow.forEach((want, row) => {
    const got = chunk.subarray(row * want.length, (row + 1) * want.length);
    const { nmse, sameToken } = compareRow(got, want, nmseMax);
    maxLogitNmse = Math.max(maxLogitNmse, nmse);
    if (sameToken) matched++;
    else firstDivergence ??= row;
  });
  return {
    compared: oneRow.length,
    matched,
    firstDivergence,
    maxLogitNmse: Number.isFinite(maxLogitNmse) ? maxLogitNmse : Number.MAX_VALUE,
    ok: maxLogitNmse <= nmseMax && matched === oneRow.length,
  };
}

/** How far the largest of many errors may lie beyond their root mean square. */
const EXTREME = 5;

/** Tokens that lie closer together than the two forms differ, and may differ, count as the same. */
function compareRow(got: Float32Array, want: Float32Array, nmseMax: number) {
  let error = 0, power = 0, most = 0, a = 0, b = 0;
  for (let i = 0; i < want.length; i++) {
    const d = got[i] - want[i];
    error += d * d;
    power += want[i] * want[i];
    most = Math.max(most, Math.abs(d));
    if (got[i] > got[a]) a = i;
    if (want[i] > want[b]) b = i;
  }
  const nmse = error === 0 ? 0 : error / power;
  const allowed = Math.min(most, EXTREME * Math.sqrt(nmseMax * power / want.length));
  const sameToken = a === b || want[b] - want[a] <= 2 * allowed;
  // NaN fails every comparison, so it must not be compared by "greater than".
  return { nmse: nmse >= 0 ? nmse : Infinity, sameToken: nmse >= 0 && sameToken };
}
