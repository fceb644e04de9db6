import { defineOp } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import { ROWS_PER_TASK } from "../../shared/concatenation.ts";
import { exampleIds, EXPERT_ROWS_FIT, expertsRead, gateUp } from "../../shared/experts.ts";

export const moeGateUp = defineOp({
  name: "moe_gate_up",
  doc:
    "h[r,k,j] = silu(gate[e, gateRow + j] . x[r]) * (up[e, upRow + j] . x[r]), e = ids[r,k]; rows <= 16",
  tensors: {
    x: { axes: ["rows", "inDim"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    gate: {
      axes: ["experts", "gateRows", "inDim"],
      dtypes: WEIGHT_FORMATS,
      role: "in",
      weight: true,
    },
    up: {
      axes: ["experts", "upRows", "inDim"],
      dtypes: WEIGHT_FORMATS,
      role: "in",
      weight: true,
      sameAs: "gate",
    },
    h: { axes: ["rows", "topK", "ffn"], dtypes: ["f32"], role: "out" },
  },
  params: { gateRow: "u32", upRow: "u32" },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "inDim", multipleOf: "group" },
    { axis: "inDim", max: 32768 },
    ...EXPERT_ROWS_FIT,
  ],
  tasks: (s) => s.rows * s.topK * Math.ceil(2 * s.ffn / ROWS_PER_TASK),
  // COLUMNS of kernels/shared/metal/dot.h, by pairs.
  simt: { threads: 64, groups: (s) => [Math.ceil(s.ffn / 4), s.rows * s.topK, 1] },
  reference: (t, p, s) => gateUp(t.x, t, p, s),
  tolerance: { f32: { rel: 5e-6, ofRms: 1e-5 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, inDim: 16, topK: 1, experts: 1, gateRows: 1, upRows: 1, ffn: 1, gateRow: 0, upRow: 0 },
    { rows: 2, inDim: 77, topK: 2, experts: 3, gateRows: 5, upRows: 7, ffn: 5, gateRow: 0, upRow: 1 },
    { rows: 3, inDim: 192, topK: 8, experts: 9, gateRows: 70, upRows: 70, ffn: 35, gateRow: 0, upRow: 35 },
    { rows: 16, inDim: 128, topK: 2, experts: 5, gateRows: 33, upRows: 33, ffn: 33, gateRow: 0, upRow: 0 },
    { rows: 1, inDim: 2048, topK: 4, experts: 6, gateRows: 256, upRows: 256, ffn: 128, gateRow: 0, upRow: 128 },
  ],
  fill: { ids: exampleIds },
  flops: (s) => 4 * s.rows * s.topK * s.ffn * s.inDim,
  touched: {
    gate: (s, at) => expertsRead(s, at) * s.ffn * s.inDim,
    up: (s, at) => expertsRead(s, at) * s.ffn * s.inDim,
  },
});
