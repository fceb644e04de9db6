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
  downRuns,
  exampleOffsets,
  exampleOrder,
  expertsInRuns,
  RUNS_FIT,
} from "../../shared/expert_runs.ts";
import { downTasks } from "../moe_down_gemm/op.ts";

/** `s.bits` is the width of the weights' codes: it decides the order of the activation codes. */
export const moeDownGemmAct8 = defineOp({
  name: "moe_down_gemm_act8",
  doc: "d[p,o] = down[e,o] . h[p], h = scales * codes, p in order[offsets[e] .. offsets[e + 1]]",
  tensors: {
    codes: { axes: ["pairs", "ffn"], dtypes: ["i8"], role: "in" },
    scales: { axes: ["pairs", "groups"], dtypes: ["f32"], role: "in" },
    sums: { axes: ["pairs", "groups"], dtypes: ["f32"], role: "in" },
    order: { axes: ["pairs"], dtypes: ["u32"], role: "in" },
    offsets: { axes: ["expertsPlus1"], dtypes: ["u32"], role: "in" },
    down: { axes: ["experts", "dim", "ffn"], dtypes: AFFINE_FORMATS, role: "in", weight: true },
    d: { axes: ["pairs", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [
    { axis: "ffn", multipleOf: 64 },
    { axis: "ffn", multipleOf: "group" },
    { product: ["groups", 32], equals: "ffn" },
    RUNS_FIT,
  ],
  tasks: downTasks,
  simt: ACT8_ON_CPU_ONLY,
  reference: (t, _, s) =>
    downRuns(unpackAct8(t.codes, t.scales, s.pairs, s.ffn, isSplit(s.bits)), t, s),
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { pairs: 1, ffn: 64, groups: 2, experts: 1, expertsPlus1: 2, dim: 1 },
    { pairs: 34, ffn: 192, groups: 6, experts: 5, expertsPlus1: 6, dim: 7 },
    { pairs: 264, ffn: 384, groups: 12, experts: 20, expertsPlus1: 21, dim: 97 },
    { pairs: 600, ffn: 128, groups: 4, experts: 1, expertsPlus1: 2, dim: 64 },
    { pairs: 160, ffn: 1024, groups: 32, experts: 6, expertsPlus1: 7, dim: 130 },
  ],
  fill: {
    codes: (s) => exampleCodes(s.pairs, s.ffn),
    scales: (s) => exampleScales(s.pairs, s.ffn),
    sums: (s) => exampleSums(s.pairs, s.ffn, isSplit(s.bits)),
    order: exampleOrder,
    offsets: exampleOffsets,
  },
  flops: (s) => 2 * s.pairs * s.ffn * s.dim,
  touched: { down: (s, at) => expertsInRuns(s, at) * s.dim * s.ffn },
});
