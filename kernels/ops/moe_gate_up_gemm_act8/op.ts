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
import {
  exampleOffsets,
  exampleOrder,
  expertsInRuns,
  gateUpRuns,
  RUNS_FIT,
} from "../../shared/expert_runs.ts";
import { EXPERT_ROWS_FIT } from "../../shared/experts.ts";
import { gateUpTasks } from "../moe_gate_up_gemm/op.ts";

/** `s.bits` is the width of the weights' codes: it decides the order of the activation codes. */
export const moeGateUpGemmAct8 = defineOp({
  name: "moe_gate_up_gemm_act8",
  doc:
    "h[p,j] = silu(gate[e, gateRow + j] . x[p / topK]) * (up[e, upRow + j] . x[p / topK]), x = scales * codes, p in order[offsets[e] .. offsets[e + 1]]",
  tensors: {
    codes: { axes: ["rows", "inDim"], dtypes: ["i8"], role: "in" },
    scales: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    sums: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    order: { axes: ["pairs"], dtypes: ["u32"], role: "in" },
    offsets: { axes: ["expertsPlus1"], dtypes: ["u32"], role: "in" },
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
    h: { axes: ["pairs", "ffn"], dtypes: ["f32"], role: "out" },
  },
  params: { topK: "u32", gateRow: "u32", upRow: "u32" },
  constraints: [
    { product: ["rows", "topK"], equals: "pairs" },
    { axis: "inDim", multipleOf: 64 },
    { axis: "inDim", multipleOf: "group" },
    { product: ["groups", 32], equals: "inDim" },
    RUNS_FIT,
    ...EXPERT_ROWS_FIT,
  ],
  tasks: gateUpTasks,
  simt: ACT8_ON_CPU_ONLY,
  reference: (t, p, s) =>
    gateUpRuns(unpackAct8(t.codes, t.scales, s.rows, s.inDim, isSplit(s.bits)), t, p, s),
  tolerance: { f32: { rel: 5e-6, ofRms: 5e-6 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, topK: 1, pairs: 1, inDim: 64, groups: 2, experts: 1, expertsPlus1: 2, gateRows: 1, upRows: 1, ffn: 1, gateRow: 0, upRow: 0 },
    { rows: 17, topK: 2, pairs: 34, inDim: 192, groups: 6, experts: 5, expertsPlus1: 6, gateRows: 5, upRows: 7, ffn: 5, gateRow: 0, upRow: 1 },
    { rows: 33, topK: 8, pairs: 264, inDim: 384, groups: 12, experts: 20, expertsPlus1: 21, gateRows: 70, upRows: 70, ffn: 35, gateRow: 0, upRow: 35 },
    { rows: 600, topK: 1, pairs: 600, inDim: 128, groups: 4, experts: 1, expertsPlus1: 2, gateRows: 64, upRows: 64, ffn: 32, gateRow: 0, upRow: 32 },
    { rows: 20, topK: 8, pairs: 160, inDim: 2048, groups: 64, experts: 6, expertsPlus1: 7, gateRows: 64, upRows: 64, ffn: 32, gateRow: 0, upRow: 32 },
  ],
  fill: {
    codes: (s) => exampleCodes(s.rows, s.inDim),
    scales: (s) => exampleScales(s.rows, s.inDim),
    sums: (s) => exampleSums(s.rows, s.inDim, isSplit(s.bits)),
    order: exampleOrder,
    offsets: exampleOffsets,
  },
  flops: (s) => 4 * s.pairs * s.ffn * s.inDim,
  touched: {
    gate: (s, at) => expertsInRuns(s, at) * s.ffn * s.inDim,
    up: (s, at) => expertsInRuns(s, at) * s.ffn * s.inDim,
  },
});
