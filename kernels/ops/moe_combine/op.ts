import { defineOp } from "../../define.ts";

/** Columns of one task. */
const CHUNK = 1024;

/** Columns of one threadgroup: four a thread. */
const COLUMNS = 4 * 256;

export const moeCombine = defineOp({
  name: "moe_combine",
  doc: "y[r,c] = sum_k weights[r,k] * d[r,k,c], k ascending",
  tensors: {
    d: { axes: ["rows", "topK", "dim"], dtypes: ["f32"], role: "in" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "in" },
    y: { axes: ["rows", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [],
  tasks: (s) => s.rows * Math.ceil(s.dim / CHUNK),
  simt: { threads: 256, groups: (s) => [Math.ceil(s.dim / COLUMNS), s.rows, 1] },
  reference: ({ d, weights, y }, _, { rows, topK, dim }) => {
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < dim; c++) {
        let sum = 0;
        for (let k = 0; k < topK; k++) sum += weights[r * topK + k] * d[(r * topK + k) * dim + c];
        y[r * dim + c] = sum;
      }
    }
  },
  tolerance: { f32: { rel: 1e-6, ofRms: 1e-6 } },
  cases: [
    { rows: 1, topK: 1, dim: 1 },
    { rows: 3, topK: 2, dim: 37 },
    { rows: 17, topK: 8, dim: 1025 },
    { rows: 100, topK: 10, dim: 2048 },
  ],
  flops: (s) => 2 * s.rows * s.topK * s.dim,
});
