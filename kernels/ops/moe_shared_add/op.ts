import { defineOp } from "../../define.ts";

/** Columns of one task. */
const CHUNK = 2048;

/** Columns of one threadgroup: four a thread. */
const COLUMNS = 4 * 256;

export const moeSharedAdd = defineOp({
  name: "moe_shared_add",
  doc: "moe[r,c] += sigmoid(logits[r, gateCol]) * shared[r,c]",
  tensors: {
    moe: { axes: ["rows", "dim"], dtypes: ["f32"], role: "inout" },
    shared: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    logits: { axes: ["rows", "logitStride"], dtypes: ["f32"], role: "in" },
  },
  params: { gateCol: "u32" },
  constraints: [{ sum: ["gateCol", [1]], atMost: "logitStride" }],
  tasks: (s) => s.rows * Math.ceil(s.dim / CHUNK),
  simt: { threads: 256, groups: (s) => [Math.ceil(s.dim / COLUMNS), s.rows, 1] },
  reference: ({ moe, shared, logits }, { gateCol }, { rows, dim, logitStride }) => {
    for (let r = 0; r < rows; r++) {
      const gate = 1 / (1 + Math.exp(-logits[r * logitStride + gateCol]));
      for (let c = 0; c < dim; c++) moe[r * dim + c] += gate * shared[r * dim + c];
    }
  },
  tolerance: { f32: { rel: 1e-6, ofRms: 1e-6 } },
  cases: [
    { rows: 1, dim: 1, logitStride: 1, gateCol: 0 },
    { rows: 3, dim: 37, logitStride: 5, gateCol: 4 },
    { rows: 16, dim: 2049, logitStride: 257, gateCol: 256 },
    { rows: 100, dim: 2048, logitStride: 260, gateCol: 256 },
  ],
  flops: (s) => 2 * s.rows * s.dim,
  touched: { logits: (s) => s.rows },
});
