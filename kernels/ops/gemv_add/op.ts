import { defineOp } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import { ROWS_PER_TASK } from "../../shared/concatenation.ts";

export const gemvAdd = defineOp({
  name: "gemv_add",
  doc: "y[r,o] += sum_i x[r,i] * w[o,i], one addition of the finished sum; rows <= 16",
  tensors: {
    x: { axes: ["rows", "inDim"], dtypes: ["f32"], role: "in" },
    w: { axes: ["out", "inDim"], dtypes: WEIGHT_FORMATS, role: "in", weight: true },
    y: { axes: ["rows", "out"], dtypes: ["f32"], role: "inout" },
  },
  params: {},
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "inDim", multipleOf: "group" },
    { axis: "inDim", max: 32768 },
  ],
  tasks: (s) => Math.ceil(s.out / ROWS_PER_TASK),
  // Tiles of 8 columns by chunks of 4 rows: TILE and CHUNK_ROWS of kernels/shared/metal/gemv.h.
  simt: { threads: 64, groups: (s) => [Math.ceil(s.out / 8) * Math.ceil(s.rows / 4), 1, 1] },
  reference: ({ x, w, y }, _, { rows, inDim, out }) => {
    for (let r = 0; r < rows; r++) {
      for (let o = 0; o < out; o++) {
        let sum = 0;
        for (let i = 0; i < inDim; i++) sum += x[r * inDim + i] * w[o * inDim + i];
        y[r * out + o] += sum;
      }
    }
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-5 } },
  cases: [
    { rows: 1, inDim: 16, out: 1 },
    { rows: 1, inDim: 48, out: 5 },
    { rows: 3, inDim: 77, out: 11 },
    { rows: 2, inDim: 192, out: 65 },
    { rows: 16, inDim: 128, out: 103 },
    { rows: 7, inDim: 1408, out: 37 },
    { rows: 1, inDim: 4096, out: 256 },
    { rows: 5, inDim: 5120, out: 40 },
  ],
  flops: (s) => s.rows * s.out * (2 * s.inDim + 1),
});
