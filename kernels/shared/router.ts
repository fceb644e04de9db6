/** What the ops that choose experts share in TypeScript: the choice in f64, and example logits. */
import type { Fill, Sizes } from "../define.ts";

/** Where f32 ends: infinities count as it, NaN as its negative. */
const F32_MAX = 3.4028234663852886e38;

/** The value that a logit stands for. */
export function finiteLogit(v: number): number {
  return Number.isNaN(v) ? -F32_MAX : Math.min(Math.max(v, -F32_MAX), F32_MAX);
}

/** ids[r,:] = the topK greatest of logits[r, 0:experts]; weights[r,:] = softmax over them. */
export function chooseExperts(
  t: { logits: Float64Array; ids: Uint32Array; weights: Float64Array },
  experts: number,
  { rows, logitStride, topK }: Sizes,
): void {
  for (let r = 0; r < rows; r++) {
    const row = t.logits.subarray(r * logitStride, r * logitStride + experts);
    const x = Array.from(row, finiteLogit);
    const order = x.map((_, e) => e).sort((a, b) => x[b] - x[a] || a - b).slice(0, topK);
    const terms = order.map((e) => Math.exp(x[e] - x[order[0]]));
    const sum = terms.reduce((a, b) => a + b);
    order.forEach((e, k) => {
      t.ids[r * topK + k] = e;
      t.weights[r * topK + k] = terms[k] / sum;
    });
  }
}

/** Every second row has ties; one in some hundred values is no number or huge. */
export const exampleLogits: Fill = (s, random) =>
  Float64Array.from({ length: s.rows * s.logitStride }, (_, i) => {
    const x = 8 * (random() - 0.5), odd = random();
    if (odd < 0.004) return NaN;
    if (odd < 0.006) return -Infinity;
    if (odd < 0.007) return 3e38;
    return Math.floor(i / s.logitStride) % 2 ? Math.round(x) : x;
  });
