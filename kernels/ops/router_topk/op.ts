import { defineOp } from "../../define.ts";
import { chooseExperts, exampleLogits } from "../../shared/router.ts";

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
  reference: (t, { experts }, s) => chooseExperts(t, experts, s),
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-7 } },
  cases: [
    { rows: 1, logitStride: 1, topK: 1, experts: 1 },
    { rows: 3, logitStride: 9, topK: 7, experts: 7 },
    { rows: 5, logitStride: 40, topK: 3, experts: 37 },
    { rows: 16, logitStride: 257, topK: 8, experts: 256 },
    { rows: 9, logitStride: 512, topK: 10, experts: 512 },
    { rows: 2, logitStride: 1030, topK: 32, experts: 1024 },
  ],
  fill: { logits: exampleLogits },
  flops: (s) => s.rows * (s.experts + 5 * s.topK),
  touched: { logits: (s) => s.rows * s.experts },
});
