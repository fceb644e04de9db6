/**
 * What the expert products for many rows share in TypeScript: pairs (row * topK + k) sorted by expert into
 * runs, references that walk the runs, example runs. Pairs in no run are left as they are.
 */
import type { Constraint, Sizes, Traffic } from "../define.ts";
import { silu } from "./experts.ts";

/** Outputs of one task; a task of gate and up takes half of it from each. TILE_OUTS of weight_tile.h. */
export const TILE_OUTS = 64;
/** Rows of one task of a dense product. GEMM_ROW_TILE of gemm_tasks.h. */
export const ROW_TILE = 128;

/** One offset more than experts. */
export const RUNS_FIT: Constraint = { sum: ["experts", [1]], atMost: "expertsPlus1" };

/** Experts whose weights are read when each row goes to topK of them. */
export function expertsInRuns(s: Sizes, at: Traffic): number {
  return Math.min(at.distinctExperts ?? s.pairs, s.pairs, s.experts);
}

/** A permutation of the pairs with one replaced by a number that is no pair. */
export function exampleOrder({ pairs }: Sizes): number[] {
  let stride = Math.max(1, Math.floor(pairs * 0.618));
  while (gcd(stride, pairs) !== 1) stride++;
  return Array.from({ length: pairs }, (_, i) => i === 5 ? pairs + 7 : i * stride % pairs);
}

function gcd(a: number, b: number): number {
  return b ? gcd(b, a % b) : a;
}

/** Runs of uneven length, some empty, that leave a pair uncovered where there are enough. */
export function exampleOffsets({ pairs, expertsPlus1 }: Sizes): number[] {
  const covered = pairs > 3 ? pairs - 1 : pairs;
  return Array.from({ length: expertsPlus1 }, (_, e) => {
    const share = e < expertsPlus1 - 1 ? ((e - e % 3) / (expertsPlus1 - 1)) ** 2 : 1;
    return Math.floor(covered * share);
  });
}

/** Calls visit(expert, pair) for every pair of every run. */
function eachPair(
  t: { order: Uint32Array; offsets: Uint32Array },
  { experts, pairs }: Sizes,
  visit: (e: number, pair: number) => void,
): void {
  for (let e = 0; e < experts; e++) {
    for (let i = t.offsets[e]; i < t.offsets[e + 1]; i++) {
      if (t.order[i] < pairs) visit(e, t.order[i]);
    }
  }
}

function dot(a: Float64Array, atA: number, b: Float64Array, atB: number, n: number): number {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += a[atA + i] * b[atB + i];
  return sum;
}

/** h[p,j] = silu(gate[e, gateRow + j] . x[p / topK]) * (up[e, upRow + j] . x[p / topK]), p in the run of e. */
export function gateUpRuns(
  x: Float64Array,
  t: {
    order: Uint32Array;
    offsets: Uint32Array;
    gate: Float64Array;
    up: Float64Array;
    h: Float64Array;
  },
  p: { topK: number; gateRow: number; upRow: number },
  s: Sizes,
): void {
  const { inDim, gateRows, upRows, ffn } = s;
  eachPair(t, s, (e, pair) => {
    const atX = Math.floor(pair / p.topK) * inDim;
    for (let j = 0; j < ffn; j++) {
      const g = dot(x, atX, t.gate, (e * gateRows + p.gateRow + j) * inDim, inDim);
      const u = dot(x, atX, t.up, (e * upRows + p.upRow + j) * inDim, inDim);
      t.h[pair * ffn + j] = silu(g) * u;
    }
  });
}

/** d[p,o] = down[e,o] . h[p], p in the run of e. */
export function downRuns(
  h: Float64Array,
  t: { order: Uint32Array; offsets: Uint32Array; down: Float64Array; d: Float64Array },
  s: Sizes,
): void {
  const { dim, ffn } = s;
  eachPair(t, s, (e, pair) => {
    for (let o = 0; o < dim; o++) {
      t.d[pair * dim + o] = dot(h, pair * ffn, t.down, (e * dim + o) * ffn, ffn);
    }
  });
}
