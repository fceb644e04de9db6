import { defineOp } from "../../define.ts";
import { finiteLogit } from "../../shared/router.ts";

/** What router_topk gives beside its choice, for a choice that was made elsewhere. */
export const expertWeights = defineOp({
  name: "expert_weights",
  doc: "weights[r,:] = softmax over logits[r, ids[r,:]]; an id beyond the experts has weight 0",
  tensors: {
    logits: { axes: ["rows", "logitStride"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "out" },
  },
  params: { experts: "u32" },
  constraints: [
    { sum: ["experts"], atMost: "logitStride" },
    { axis: "topK", max: 32 },
  ],
  tasks: (s) => s.rows,
  simt: { threads: 32, groups: (s) => [s.rows, 1, 1] },
  reference: ({ logits, ids, weights }, { experts }, { rows, logitStride, topK }) => {
    for (let r = 0; r < rows; r++) {
      const x = Array.from({ length: topK }, (_, k) => {
        const id = ids[r * topK + k];
        return id < experts ? finiteLogit(logits[r * logitStride + id]) : -Infinity;
      });
      const top = Math.max(...x);
      const terms = x.map((v) => top === -Infinity ? 0 : Math.exp(v - top));
      const sum = terms.reduce((a, b) => a + b);
      terms.forEach((t, k) => weights[r * topK + k] = sum > 0 ? t / sum : 0);
    }
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-7 } },
  cases: [
    { rows: 1, logitStride: 1, topK: 1, experts: 1 },
    { rows: 3, logitStride: 9, topK: 7, experts: 7 },
    { rows: 17, logitStride: 257, topK: 8, experts: 256 },
    { rows: 2, logitStride: 1030, topK: 32, experts: 1024 },
  ],
  fill: {
    logits: (s, random) =>
      Float64Array.from({ length: s.rows * s.logitStride }, () => {
        const odd = random();
        return odd < 0.004 ? NaN : odd < 0.006 ? -Infinity : 8 * (random() - 0.5);
      }),
    // One in some twenty ids is no expert.
    ids: (s, random) =>
      Uint32Array.from(
        { length: s.rows * s.topK },
        () => random() < 0.05 ? s.experts + 3 : Math.floor(random() * s.experts),
      ),
  },
  flops: (s) => s.rows * 5 * s.topK,
  touched: { logits: (s) => s.rows * s.topK },
});
