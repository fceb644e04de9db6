/**
 * What the declarations of the attention ops share: cache types, head dimensions, which keys a row sees,
 * the f64 softmax that their references compute, and the inputs of their parity cases.
 */
import type { Fill, Sizes, Traffic } from "../define.ts";
import { STEP } from "../step.ts";

export const KV_DTYPES = ["f32", "f16", "bf16", "q8"] as const;
export const HEAD_DIMS = [64, 128, 256, 512] as const;

/** Queries over the caches, and what attn_decode and attn_prefill make of them. */
export const ATTEND_TENSORS = {
  q: { axes: ["rows", "qHeads", "headDim"], dtypes: ["f32"], role: "in" },
  kCache: { axes: ["kvHeads", "ctx", "headDim"], dtypes: KV_DTYPES, role: "in" },
  vCache: {
    axes: ["kvHeads", "ctx", "headDim"],
    dtypes: KV_DTYPES,
    role: "in",
    sameAs: "kCache",
  },
  step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
  o: { axes: ["rows", "qHeads", "headDim"], dtypes: ["f32"], role: "out" },
} as const;

/** Keys that row r sees: positions 0..pos + r, never more than `limit`. */
export function keysSeen(pos: number, r: number, limit: number): number {
  return Math.min(pos + r + 1, limit);
}

/** The key head that query head h reads. */
export function kvHeadOf(h: number, s: Sizes): number {
  return Math.floor(h / Math.ceil(s.qHeads / s.kvHeads));
}

/** Threadgroups that share the query heads of a key head: each does at most 8 of them. */
export function headTiles(s: Sizes): number {
  return Math.ceil(Math.ceil(s.qHeads / s.kvHeads) / 8);
}

/** The lowest finite f32: where the maximum of no keys stands. */
export const LOWEST = -3.4028234663852886e38;

export interface Attended {
  max: number;
  sum: number;
  /** sum_j exp(s_j - max) * v_j */
  readonly weighted: Float64Array;
}

/** Query row r, head h over the keys [from, to); bias(j) is added to the score of key j. */
export function attend(
  t: { readonly q: Float64Array; readonly kCache: Float64Array; readonly vCache: Float64Array },
  scale: number,
  s: Sizes,
  at: { readonly r: number; readonly h: number; readonly from: number; readonly to: number },
  bias: (j: number) => number = () => 0,
): Attended {
  const { headDim } = s;
  const qAt = (at.r * s.qHeads + at.h) * headDim;
  const cacheAt = kvHeadOf(at.h, s) * s.ctx * headDim;
  const scores = new Float64Array(at.to - at.from);
  for (let j = at.from; j < at.to; j++) {
    let dot = 0;
    for (let d = 0; d < headDim; d++) dot += t.q[qAt + d] * t.kCache[cacheAt + j * headDim + d];
    scores[j - at.from] = scale * dot + bias(j);
  }
  const out = {
    max: scores.reduce((a, x) => Math.max(a, x), LOWEST),
    sum: 0,
    weighted: new Float64Array(headDim),
  };
  for (let j = at.from; j < at.to; j++) {
    const p = Math.exp(scores[j - at.from] - out.max);
    out.sum += p;
    for (let d = 0; d < headDim; d++) out.weighted[d] += p * t.vCache[cacheAt + j * headDim + d];
  }
  return out;
}

/** o of attn_decode and attn_prefill. */
export function attendRows(
  t: {
    readonly q: Float64Array;
    readonly kCache: Float64Array;
    readonly vCache: Float64Array;
    readonly step: Uint32Array;
    readonly o: Float64Array;
  },
  p: { readonly scale: number },
  s: Sizes,
): void {
  for (let r = 0; r < s.rows; r++) {
    const to = keysSeen(t.step[STEP.pos], r, s.ctx);
    for (let h = 0; h < s.qHeads; h++) {
      const { sum, weighted } = attend(t, p.scale, s, { r, h, from: 0, to });
      const at = (r * s.qHeads + h) * s.headDim;
      for (let d = 0; d < s.headDim; d++) t.o[at + d] = weighted[d] / sum;
    }
  }
}

/** A step block that knows only its position: `pos` of the case. */
export const fillStep: Fill = (s) => {
  const step = new Uint32Array(s.stepWords);
  step[STEP.pos] = s.pos;
  return step;
};

/** A cache whose rows that no query sees are NaN, so that reading one shows. */
export const fillCache: Fill = (s, random) => {
  const keys = keysSeen(s.pos, s.rows - 1, s.ctx);
  return Float64Array.from(
    { length: s.kvHeads * s.ctx * s.headDim },
    (_, i) => Math.floor(i / s.headDim) % s.ctx < keys ? random() : NaN,
  );
};

/** Pairs of a row and a key that it sees. */
export function pairsSeen(s: Sizes, at: Traffic): number {
  let pairs = 0;
  for (let r = 0; r < s.rows; r++) pairs += keysSeen(at.pos, r, s.ctx);
  return pairs;
}

/** Elements of a cache that the rows of a play read. */
export function cacheSeen(s: Sizes, at: Traffic): number {
  return s.kvHeads * s.headDim * keysSeen(at.pos, s.rows - 1, s.ctx);
}
