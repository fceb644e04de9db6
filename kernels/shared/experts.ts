/**
 * What the expert ops for up to 16 rows, exact and int8, share in TypeScript: references on dequantised
 * activations, example ids and the number of experts whose weights are read.
 */
import type { Constraint, Sizes, Traffic } from "../define.ts";

export function silu(v: number): number {
  return v / (1 + Math.exp(-v));
}

export const EXPERT_ROWS_FIT: readonly Constraint[] = [
  { sum: ["gateRow", "ffn"], atMost: "gateRows" },
  { sum: ["upRow", "ffn"], atMost: "upRows" },
];

/** Experts that the rows of one record read. */
export function expertsRead(s: Sizes, at: Traffic): number {
  return Math.min(at.distinctExperts ?? s.rows * s.topK, s.rows * s.topK, s.experts);
}

/** Distinct experts in a row, and now and then an id outside. */
export function exampleIds({ rows, topK, experts }: Sizes): number[] {
  return Array.from({ length: rows * topK }, (_, pair) => {
    const r = Math.floor(pair / topK);
    return pair % 11 === 10 ? experts + pair : (r * 7 + pair % topK * 3) % experts;
  });
}

function dot(a: Float64Array, atA: number, b: Float64Array, atB: number, n: number): number {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += a[atA + i] * b[atB + i];
  return sum;
}

/** h[r,k,j] = silu(gate[e, gateRow + j] . x[r]) * (up[e, upRow + j] . x[r]), e = ids[r,k]. */
export function gateUp(
  x: Float64Array,
  t: { ids: Uint32Array; gate: Float64Array; up: Float64Array; h: Float64Array },
  p: { gateRow: number; upRow: number },
  { rows, inDim, topK, experts, gateRows, upRows, ffn }: Sizes,
): void {
  for (let pair = 0; pair < rows * topK; pair++) {
    const e = t.ids[pair];
    const atX = Math.floor(pair / topK) * inDim;
    for (let j = 0; j < ffn; j++) {
      if (e >= experts) t.h[pair * ffn + j] = 0;
      else {
        const g = dot(x, atX, t.gate, (e * gateRows + p.gateRow + j) * inDim, inDim);
        const u = dot(x, atX, t.up, (e * upRows + p.upRow + j) * inDim, inDim);
        t.h[pair * ffn + j] = silu(g) * u;
      }
    }
  }
}

/** y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), e = ids[r,k], k ascending. */
export function downSum(
  h: Float64Array,
  t: { ids: Uint32Array; weights: Float64Array; down: Float64Array; y: Float64Array },
  { rows, topK, experts, dim, ffn }: Sizes,
): void {
  for (let r = 0; r < rows; r++) {
    for (let d = 0; d < dim; d++) {
      let sum = 0;
      for (let k = 0; k < topK; k++) {
        const pair = r * topK + k;
        const e = t.ids[pair];
        if (e >= experts) continue;
        sum += t.weights[pair] * dot(h, pair * ffn, t.down, (e * dim + d) * ffn, ffn);
      }
      t.y[r * dim + d] = sum;
    }
  }
}

/** A row of `h` has a slot for each chosen expert, and one for the shared expert behind them. */
export const SLOTS_HOLD_SHARED: Constraint = { sum: ["topK", [1]], equals: "slots" };

/** h[r] = routed[r], then shared[r]. */
export function joinShared(
  h: Float64Array,
  routed: Float64Array,
  shared: Float64Array,
  { rows, topK, slots, ffn }: Sizes,
): void {
  for (let r = 0; r < rows; r++) {
    h.set(routed.subarray(r * topK * ffn, (r + 1) * topK * ffn), r * slots * ffn);
    h.set(shared.subarray(r * ffn, (r + 1) * ffn), (r * slots + topK) * ffn);
  }
}

/** The two parts of joinShared. */
export function splitShared(h: Float64Array, { rows, topK, slots, ffn }: Sizes) {
  const routed = new Float64Array(rows * topK * ffn), shared = new Float64Array(rows * ffn);
  for (let r = 0; r < rows; r++) {
    const at = r * slots * ffn, behind = at + topK * ffn;
    routed.set(h.subarray(at, behind), r * topK * ffn);
    shared.set(h.subarray(behind, behind + ffn), r * ffn);
  }
  return { routed, shared };
}
