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
import { downSum, exampleIds, expertsRead } from "../../shared/experts.ts";

/** `s.bits` is the width of the weights' codes: it decides the order of the activation codes. */
export const moeDownAct8 = defineOp({
  name: "moe_down_act8",
  doc:
    "y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), h[r,k] = scales * codes of pair r*topK + k, e = ids[r,k]; rows <= 16",
  tensors: {
    codes: { axes: ["pairs", "ffn"], dtypes: ["i8"], role: "in" },
    scales: { axes: ["pairs", "groups"], dtypes: ["f32"], role: "in" },
    sums: { axes: ["pairs", "groups"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "in" },
    down: { axes: ["experts", "dim", "ffn"], dtypes: AFFINE_FORMATS, role: "in", weight: true },
    y: { axes: ["rows", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [
    { axis: "rows", max: 16 },
    { product: ["rows", "topK"], equals: "pairs" },
    { axis: "ffn", multipleOf: 64 },
    { axis: "ffn", multipleOf: "group" },
    { axis: "ffn", max: 32768 },
    { product: ["groups", 32], equals: "ffn" },
  ],
  tasks: (s) => Math.ceil(s.dim / ROWS_PER_TASK),
  simt: ACT8_ON_CPU_ONLY,
  reference: (t, _, s) =>
    downSum(unpackAct8(t.codes, t.scales, s.pairs, s.ffn, isSplit(s.bits)), t, s),
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { pairs: 1, rows: 1, topK: 1, ffn: 64, groups: 2, experts: 1, dim: 1 },
    { pairs: 24, rows: 3, topK: 8, ffn: 192, groups: 6, experts: 9, dim: 67 },
    { pairs: 32, rows: 16, topK: 2, ffn: 128, groups: 4, experts: 5, dim: 33 },
    { pairs: 8, rows: 1, topK: 8, ffn: 512, groups: 16, experts: 12, dim: 256 },
  ],
  fill: {
    codes: (s) => exampleCodes(s.pairs, s.ffn),
    scales: (s) => exampleScales(s.pairs, s.ffn),
    sums: (s) => exampleSums(s.pairs, s.ffn, isSplit(s.bits)),
    ids: exampleIds,
  },
  flops: (s) => 2 * s.rows * s.topK * (s.ffn + 1) * s.dim,
  touched: { down: (s, at) => expertsRead(s, at) * s.dim * s.ffn },
});
