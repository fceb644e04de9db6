import { defineOp } from "../../define.ts";

/** Where f32 ends: infinities count as it, NaN as its negative. */
const F32_MAX = 3.4028234663852886e38;

export const routerTopk = defineOp({
  name: "router_topk",
  doc:
    "ids[r,:] = the topK greatest of logits[r, 0:experts], descending; weights[r,:] = softmax over the chosen logits",
  tensors: {
    logits: { axes: ["rows", "logitStride"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "out" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "out" },
  },
  params: { experts: "u32" },
  constraints: [
    { sum: ["experts"], atMost: "logitStride" },
    { sum: ["topK"], atMost: "experts" },
    { axis: "experts", max: 1024 },
    { axis: "topK", max: 32 },
  ],
  tasks: (s) => s.rows,
  simt: { threads: 32, groups: (s) => [s.rows, 1, 1] },
  reference: ({ logits, ids, weights }, { experts }, { rows, logitStride, topK }) => {
    for (let r = 0; r < rows; r++) {
      const x = Array.from(
        logits.subarray(r * logitStride, r * logitStride + experts),
        (v) => Number.isNaN(v) ? -F32_MAX : Math.min(Math.max(v, -F32_MAX), F32_MAX),
      );
      const order = x.map((_, e) => e).sort((a, b) => x[b] - x[a] || a - b).slice(0, topK);
      const terms = order.map((e) => Math.exp(x[e] - x[order[0]]));
      const sum = terms.reduce((a, b) => a + b);
      order.forEach((e, k) => {
        ids[r * topK + k] = e;
        weights[r * topK + k] = terms[k] / sum;
      });
    }
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-7 } },
  cases: [
    { rows: 1, logitStride: 1, topK: 1, experts: 1 },
    { rows: 3, logitStride: 9, topK: 7, experts: 7 },
    { rows: 5, logitStride: 40, topK: 3, experts: 37 },
    { rows: 16, logitStride: 257, topK: 8, experts: 256 },
    { rows: 9, logitStride: 512, topK: 10, experts: 512 },
    { rows: 2, logitStride: 1030, topK: 32, experts: 1024 },
  ],
  fill: {
    // Every second row has ties; one in some hundred values is no number or huge.
    logits: (s, random) =>
      Float64Array.from({ length: s.rows * s.logitStride }, (_, i) => {
        const x = 8 * (random() - 0.5), odd = random();
        if (odd < 0.004) return NaN;
        if (odd < 0.006) return -Infinity;
        if (odd < 0.007) return 3e38;
        return Math.floor(i / s.logitStride) % 2 ? Math.round(x) : x;
      }),
  },
  flops: (s) => s.rows * (s.experts + 5 * s.topK),
  touched: { logits: (s) => s.rows * s.experts },
});
