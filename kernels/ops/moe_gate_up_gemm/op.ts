import { defineOp, type Sizes } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import {
  exampleOffsets,
  exampleOrder,
  expertsInRuns,
  gateUpRuns,
  RUNS_FIT,
  TILE_OUTS,
} from "../../shared/expert_runs.ts";
import { EXPERT_ROWS_FIT } from "../../shared/experts.ts";
import { THREADGROUP_TILE } from "../gemm/op.ts";

/** One task takes half a tile of gate and the same half of up, for one expert. */
export function gateUpTasks(s: Sizes): number {
  return s.experts * Math.ceil(s.ffn / (TILE_OUTS / 2));
}

export const moeGateUpGemm = defineOp({
  name: "moe_gate_up_gemm",
  doc:
    "h[p,j] = silu(gate[e, gateRow + j] . x[p / topK]) * (up[e, upRow + j] . x[p / topK]), p in order[offsets[e] .. offsets[e + 1]]",
  tensors: {
    x: { axes: ["rows", "inDim"], dtypes: ["f32"], role: "in" },
    order: { axes: ["pairs"], dtypes: ["u32"], role: "in" },
    offsets: { axes: ["expertsPlus1"], dtypes: ["u32"], role: "in" },
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
    h: { axes: ["pairs", "ffn"], dtypes: ["f32"], role: "out" },
  },
  params: { topK: "u32", gateRow: "u32", upRow: "u32" },
  constraints: [
    { product: ["rows", "topK"], equals: "pairs" },
    { axis: "inDim", multipleOf: "group" },
    RUNS_FIT,
    ...EXPERT_ROWS_FIT,
  ],
  tasks: gateUpTasks,
  simt: {
    threads: 128,
    groups: (s) => [
      Math.ceil(s.ffn / (THREADGROUP_TILE / 2)),
      Math.floor(s.pairs / THREADGROUP_TILE) + s.experts,
      1,
    ],
  },
  reference: (t, p, s) => gateUpRuns(t.x, t, p, s),
  tolerance: { f32: { rel: 5e-6, ofRms: 5e-6 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, topK: 1, pairs: 1, inDim: 16, experts: 1, expertsPlus1: 2, gateRows: 1, upRows: 1, ffn: 1, gateRow: 0, upRow: 0 },
    { rows: 17, topK: 2, pairs: 34, inDim: 77, experts: 5, expertsPlus1: 6, gateRows: 5, upRows: 7, ffn: 5, gateRow: 0, upRow: 1 },
    { rows: 33, topK: 8, pairs: 264, inDim: 384, experts: 20, expertsPlus1: 21, gateRows: 70, upRows: 70, ffn: 35, gateRow: 0, upRow: 35 },
    { rows: 100, topK: 3, pairs: 300, inDim: 128, experts: 2, expertsPlus1: 3, gateRows: 33, upRows: 35, ffn: 33, gateRow: 0, upRow: 2 },
    { rows: 600, topK: 1, pairs: 600, inDim: 128, experts: 1, expertsPlus1: 2, gateRows: 64, upRows: 64, ffn: 32, gateRow: 0, upRow: 32 },
    { rows: 20, topK: 8, pairs: 160, inDim: 2048, experts: 6, expertsPlus1: 7, gateRows: 64, upRows: 64, ffn: 32, gateRow: 0, upRow: 32 },
  ],
  fill: { order: exampleOrder, offsets: exampleOffsets },
  flops: (s) => 4 * s.pairs * s.ffn * s.inDim,
  touched: {
    gate: (s, at) => expertsInRuns(s, at) * s.ffn * s.inDim,
    up: (s, at) => expertsInRuns(s, at) * s.ffn * s.inDim,
  },
});
