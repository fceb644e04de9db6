import { defineOp } from "../../define.ts";
import { normRow } from "../../shared/norm.ts";

export const rmsNorm = defineOp({
  name: "rms_norm",
  doc: "y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d]",
  tensors: {
    x: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    w: { axes: ["dim"], dtypes: ["f32"], role: "in" },
    y: { axes: ["rows", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: { eps: "f32" },
  constraints: [],
  tasks: (s) => s.rows,
  simt: { threads: 256, groups: (s) => [s.rows, 1, 1] },
  reference: ({ x, w, y }, { eps }, { rows, dim }) => {
    for (let r = 0; r < rows; r++) {
      const at = r * dim;
      normRow(x.subarray(at, at + dim), w, y.subarray(at, at + dim), eps);
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
  flops: (s) => 4 * s.rows * s.dim,
});
