import { defineOp } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import { ROWS_PER_TASK } from "../../shared/concatenation.ts";
import { downSum, exampleIds, expertsRead } from "../../shared/experts.ts";

export const moeDown = defineOp({
  name: "moe_down",
  doc: "y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), e = ids[r,k], k ascending; rows <= 16",
  tensors: {
    h: { axes: ["rows", "topK", "ffn"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "in" },
    down: { axes: ["experts", "dim", "ffn"], dtypes: WEIGHT_FORMATS, role: "in", weight: true },
    y: { axes: ["rows", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "ffn", multipleOf: "group" },
    { axis: "ffn", max: 32768 },
  ],
  tasks: (s) => Math.ceil(s.dim / ROWS_PER_TASK),
  // COLUMNS of kernels/shared/metal/dot.h, by rows.
  simt: { threads: 128, groups: (s) => [Math.ceil(s.dim / 4), s.rows, 1] },
  reference: (t, _, s) => downSum(t.h, t, s),
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { rows: 1, topK: 1, ffn: 16, experts: 1, dim: 1 },
    { rows: 2, topK: 2, ffn: 77, experts: 3, dim: 5 },
    { rows: 3, topK: 8, ffn: 192, experts: 9, dim: 67 },
    { rows: 16, topK: 2, ffn: 128, experts: 5, dim: 33 },
    { rows: 1, topK: 8, ffn: 512, experts: 12, dim: 256 },
  ],
  fill: { ids: exampleIds },
  flops: (s) => 2 * s.rows * s.topK * (s.ffn + 1) * s.dim,
  touched: { down: (s, at) => expertsRead(s, at) * s.dim * s.ffn },
});
