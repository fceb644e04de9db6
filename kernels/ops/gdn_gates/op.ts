import { defineOp } from "../../define.ts";

export const gdnGates = defineOp({
  name: "gdn_gates",
  doc:
    "beta[r,h] = sigmoid(proj[r,bCol+h]); g[r,h] = negA[h] * softplus(proj[r,aCol+h] + dtBias[h])",
  tensors: {
    proj: { axes: ["rows", "projStride"], dtypes: ["f32"], role: "in" },
    negA: { axes: ["vHeads"], dtypes: ["f32"], role: "in" },
    dtBias: { axes: ["vHeads"], dtypes: ["f32"], role: "in" },
    beta: { axes: ["rows", "vHeads"], dtypes: ["f32"], role: "out" },
    g: { axes: ["rows", "vHeads"], dtypes: ["f32"], role: "out" },
  },
  params: { bCol: "u32", aCol: "u32" },
  constraints: [
    { sum: ["bCol", "vHeads"], atMost: "projStride" },
    { sum: ["aCol", "vHeads"], atMost: "projStride" },
  ],
  tasks: (s) => s.rows,
  simt: { threads: 64, groups: (s) => [Math.ceil(s.rows * s.vHeads / 64), 1, 1] },
  reference: ({ proj, negA, dtBias, beta, g }, { bCol, aCol }, { rows, projStride, vHeads }) => {
    for (let r = 0; r < rows; r++) {
      for (let h = 0; h < vHeads; h++) {
        const a = proj[r * projStride + aCol + h] + dtBias[h];
        const softplus = Math.max(a, 0) + Math.log1p(Math.exp(-Math.abs(a)));
        beta[r * vHeads + h] = 1 / (1 + Math.exp(-proj[r * projStride + bCol + h]));
        g[r * vHeads + h] = negA[h] * softplus;
      }
    }
  },
  tolerance: { f32: { rel: 6e-7, ofRms: 1e-7 } },
  cases: [
    { rows: 1, projStride: 2, vHeads: 1, bCol: 0, aCol: 1 },
    { rows: 3, projStride: 50, vHeads: 17, bCol: 5, aCol: 33 },
    { rows: 16, projStride: 64, vHeads: 32, bCol: 0, aCol: 32 },
    { rows: 40, projStride: 12352, vHeads: 32, bCol: 12288, aCol: 12320 },
  ],
  fill: {
    proj: (s, random) =>
      Float64Array.from({ length: s.rows * s.projStride }, () => 12 * (random() - 0.5)),
    negA: (s, random) => Float64Array.from({ length: s.vHeads }, () => -Math.exp(2 * random())),
  },
  flops: (s) => 12 * s.rows * s.vHeads,
  touched: { proj: (s) => 2 * s.rows * s.vHeads },
});
