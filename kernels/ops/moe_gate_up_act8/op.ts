import { defineOp } from "../../define.ts";
import {
  ACT8_ON_CPU_ONLY,
  exampleCodes,
  exampleScales,
  exampleSums,
  isSplit,
  unpackAct8,
} from "../../formats/act8.ts";
import { AFFINE_FORMATS } from "../../formats/affine.ts";
import { ROWS_PER_TASK } from "../../shared/concatenation.ts";
import { exampleIds, EXPERT_ROWS_FIT, expertsRead, gateUp } from "../../shared/experts.ts";

/** `s.bits` is the width of the weights' codes: it decides the order of the activation codes. */
export const moeGateUpAct8 = defineOp({
  name: "moe_gate_up_act8",
  doc:
    "h[r,k,j] = silu(gate[e, gateRow + j] . x[r]) * (up[e, upRow + j] . x[r]), x = scales * codes, e = ids[r,k]; rows <= 16",
  tensors: {
    codes: { axes: ["rows", "inDim"], dtypes: ["i8"], role: "in" },
    scales: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    sums: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    gate: {
      axes: ["experts", "gateRows", "inDim"],
      dtypes: AFFINE_FORMATS,
      role: "in",
      weight: true,
    },
    up: {
      axes: ["experts", "upRows", "inDim"],
      dtypes: AFFINE_FORMATS,
      role: "in",
      weight: true,
      sameAs: "gate",
    },
    h: { axes: ["rows", "topK", "ffn"], dtypes: ["f32"], role: "out" },
  },
  params: { gateRow: "u32", upRow: "u32" },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "inDim", multipleOf: 64 },
    { axis: "inDim", multipleOf: "group" },
    { axis: "inDim", max: 32768 },
    { product: ["groups", 32], equals: "inDim" },
    ...EXPERT_ROWS_FIT,
  ],
  tasks: (s) => s.rows * s.topK * Math.ceil(2 * s.ffn / ROWS_PER_TASK),
  simt: ACT8_ON_CPU_ONLY,
  reference: (t, p, s) =>
    gateUp(unpackAct8(t.codes, t.scales, s.rows, s.inDim, isSplit(s.bits)), t, p, s),
  tolerance: { f32: { rel: 5e-6, ofRms: 1e-5 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, inDim: 64, groups: 2, topK: 1, experts: 1, gateRows: 1, upRows: 1, ffn: 1, gateRow: 0, upRow: 0 },
    { rows: 3, inDim: 192, groups: 6, topK: 8, experts: 9, gateRows: 70, upRows: 70, ffn: 35, gateRow: 0, upRow: 35 },
    { rows: 16, inDim: 128, groups: 4, topK: 2, experts: 5, gateRows: 33, upRows: 35, ffn: 33, gateRow: 0, upRow: 2 },
    { rows: 1, inDim: 2048, groups: 64, topK: 4, experts: 6, gateRows: 256, upRows: 256, ffn: 128, gateRow: 0, upRow: 128 },
  ],
  fill: {
    codes: (s) => exampleCodes(s.rows, s.inDim),
    scales: (s) => exampleScales(s.rows, s.inDim),
    sums: (s) => exampleSums(s.rows, s.inDim, isSplit(s.bits)),
    ids: exampleIds,
  },
  flops: (s) => 4 * s.rows * s.topK * s.ffn * s.inDim,
  touched: {
    gate: (s, at) => expertsRead(s, at) * s.ffn * s.inDim,
    up: (s, at) => expertsRead(s, at) * s.ffn * s.inDim,
  },
});
