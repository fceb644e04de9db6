import { defineOp } from "../../define.ts";

export const gatedRmsNorm = defineOp({
  name: "gated_rms_norm",
  doc:
    "y[r,h,d] = o[r,h,d] / sqrt(mean_d(o[r,h,d]^2) + eps) * w[d] * silu(proj[r, zCol + h*headDim + d])",
  tensors: {
    o: { axes: ["rows", "vHeads", "headDim"], dtypes: ["f32"], role: "in" },
    proj: { axes: ["rows", "projStride"], dtypes: ["f32"], role: "in" },
    w: { axes: ["headDim"], dtypes: ["f32"], role: "in" },
    y: { axes: ["rows", "vHeads", "headDim"], dtypes: ["f32"], role: "out" },
  },
  params: { zCol: "u32", eps: "f32" },
  constraints: [{ sum: ["zCol", ["vHeads", "headDim"]], atMost: "projStride" }],
  tasks: (s) => s.rows * s.vHeads,
  simt: { threads: 128, groups: (s) => [Math.ceil(s.vHeads / 4), s.rows, 1] },
  reference: ({ o, proj, w, y }, { zCol, eps }, { rows, vHeads, headDim, projStride }) => {
    for (let i = 0; i < rows * vHeads; i++) {
      const r = Math.floor(i / vHeads), h = i % vHeads;
      let sum = 0;
      for (let d = 0; d < headDim; d++) sum += o[i * headDim + d] ** 2;
      const scale = 1 / Math.sqrt(sum / headDim + eps);
      for (let d = 0; d < headDim; d++) {
        const z = proj[r * projStride + zCol + h * headDim + d];
        y[i * headDim + d] = o[i * headDim + d] * scale * w[d] * (z / (1 + Math.exp(-z)));
      }
    }
  },
  tolerance: { f32: { rel: 8e-7, ofRms: 3e-7 } },
  cases: [
    { rows: 1, vHeads: 1, headDim: 1, projStride: 1, zCol: 0, eps: 1e-6 },
    { rows: 3, vHeads: 2, headDim: 37, projStride: 100, zCol: 26, eps: 1e-6 },
    { rows: 2, vHeads: 3, headDim: 128, projStride: 400, zCol: 5, eps: 1e-5 },
    { rows: 17, vHeads: 32, headDim: 128, projStride: 12352, zCol: 8192, eps: 1e-6 },
  ],
  flops: (s) => 12 * s.rows * s.vHeads * s.headDim,
  touched: { proj: (s) => s.rows * s.vHeads * s.headDim },
});
