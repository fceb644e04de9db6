import { defineOp } from "../../define.ts";

export const attnGate = defineOp({
  name: "attn_gate",
  doc: "o[r,h,d] *= sigmoid(qkv[r, h * 2 * headDim + headDim + d])",
  tensors: {
    o: { axes: ["rows", "qHeads", "headDim"], dtypes: ["f32"], role: "inout" },
    qkv: { axes: ["rows", "qkvWidth"], dtypes: ["f32"], role: "in" },
  },
  params: {},
  constraints: [{ sum: [[2, "qHeads", "headDim"]], atMost: "qkvWidth" }],
  tasks: (s) => s.rows * s.qHeads,
  simt: { threads: 256, groups: (s) => [s.rows, Math.ceil(s.qHeads * s.headDim / 256), 1] },
  reference: ({ o, qkv }, _p, { rows, qHeads, headDim, qkvWidth }) => {
    for (let r = 0; r < rows; r++) {
      for (let h = 0; h < qHeads; h++) {
        for (let d = 0; d < headDim; d++) {
          const gate = qkv[r * qkvWidth + (2 * h + 1) * headDim + d];
          o[(r * qHeads + h) * headDim + d] *= 1 / (1 + Math.exp(-gate));
        }
      }
    }
  },
  tolerance: { f32: { rel: 5e-7, ofRms: 1e-7 } },
  cases: [
    { rows: 1, qHeads: 1, headDim: 1, qkvWidth: 2 },
    { rows: 3, qHeads: 2, headDim: 37, qkvWidth: 151 },
    { rows: 5, qHeads: 4, headDim: 128, qkvWidth: 1536 },
    { rows: 17, qHeads: 16, headDim: 256, qkvWidth: 9216 },
  ],
  flops: (s) => 5 * s.rows * s.qHeads * s.headDim,
  touched: { qkv: (s) => s.rows * s.qHeads * s.headDim },
});
