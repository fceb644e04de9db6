import { defineOp } from "../../define.ts";

export const addRmsNorm = defineOp({
  name: "add_rms_norm",
  doc:
    "x[r,d] += delta[r,d]; y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d], with x as stored",
  tensors: {
    x: { axes: ["rows", "dim"], dtypes: ["f32"], role: "inout" },
    delta: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    w: { axes: ["dim"], dtypes: ["f32"], role: "in" },
    y: { axes: ["rows", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: { eps: "f32" },
  constraints: [],
  tasks: (s) => s.rows,
  simt: { threads: 256, groups: (s) => [s.rows, 1, 1] },
  reference: ({ x, delta, w, y }, { eps }, { rows, dim }) => {
    for (let r = 0; r < rows; r++) {
      let sum = 0;
      for (let i = r * dim; i < (r + 1) * dim; i++) {
        x[i] = Math.fround(x[i] + delta[i]);
        sum += x[i] ** 2;
      }
      const scale = 1 / Math.sqrt(sum / dim + eps);
      for (let d = 0; d < dim; d++) y[r * dim + d] = x[r * dim + d] * scale * w[d];
    }
  },
  tolerance: { f32: { rel: 6e-7, ofRms: 2e-7 } },
  cases: [
    { rows: 1, dim: 1, eps: 1e-6 },
    { rows: 3, dim: 37, eps: 1e-6 },
    { rows: 2, dim: 128, eps: 1e-5 },
    { rows: 16, dim: 2048, eps: 1e-6 },
    { rows: 33, dim: 5121, eps: 1e-6 },
  ],
  flops: (s) => 5 * s.rows * s.dim,
});
