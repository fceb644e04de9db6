import { defineOp, type Sizes } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import {
  downRuns,
  exampleOffsets,
  exampleOrder,
  expertsInRuns,
  RUNS_FIT,
  TILE_OUTS,
} from "../../shared/expert_runs.ts";
import { THREADGROUP_TILE } from "../gemm/op.ts";

export function downTasks(s: Sizes): number {
  return s.experts * Math.ceil(s.dim / TILE_OUTS);
}

export const moeDownGemm = defineOp({
  name: "moe_down_gemm",
  doc: "d[p,o] = down[e,o] . h[p], p in order[offsets[e] .. offsets[e + 1]]",
  tensors: {
    h: { axes: ["pairs", "ffn"], dtypes: ["f32"], role: "in" },
    order: { axes: ["pairs"], dtypes: ["u32"], role: "in" },
    offsets: { axes: ["expertsPlus1"], dtypes: ["u32"], role: "in" },
    down: { axes: ["experts", "dim", "ffn"], dtypes: WEIGHT_FORMATS, role: "in", weight: true },
    d: { axes: ["pairs", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [{ axis: "ffn", multipleOf: "group" }, RUNS_FIT],
  tasks: downTasks,
  simt: {
    threads: 128,
    groups: (s) => [
      Math.ceil(s.dim / THREADGROUP_TILE),
      Math.floor(s.pairs / THREADGROUP_TILE) + s.experts,
      1,
    ],
  },
  reference: (t, _, s) => downRuns(t.h, t, s),
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { pairs: 1, ffn: 16, experts: 1, expertsPlus1: 2, dim: 1 },
    { pairs: 34, ffn: 77, experts: 5, expertsPlus1: 6, dim: 7 },
    { pairs: 264, ffn: 384, experts: 20, expertsPlus1: 21, dim: 97 },
    { pairs: 600, ffn: 128, experts: 1, expertsPlus1: 2, dim: 64 },
    { pairs: 160, ffn: 1024, experts: 6, expertsPlus1: 7, dim: 130 },
    { pairs: 40, ffn: 128, experts: 1100, expertsPlus1: 1101, dim: 2 },
  ],
  fill: { order: exampleOrder, offsets: exampleOffsets },
  flops: (s) => 2 * s.pairs * s.ffn * s.dim,
  touched: { down: (s, at) => expertsInRuns(s, at) * s.dim * s.ffn },
});
