import { defineOp, type Sizes } from "../../define.ts";
import {
  COLUMNS_FIT,
  CONCATENATED_WEIGHTS,
  multiplyConcatenated,
  outDim,
} from "../../shared/concatenation.ts";
import { ROW_TILE, TILE_OUTS } from "../../shared/expert_runs.ts";

/** Rows and outputs of one threadgroup: GEMM_TILE of kernels/shared/metal/gemm.h. */
export const THREADGROUP_TILE = 64;

/** Tiles of so many outputs; a tile lies in one weight. */
function outTiles(s: Sizes, tile: number): number {
  const tiles = [s.out0, s.out1, s.out2, s.out3].map((out) => Math.ceil(out / tile));
  return tiles.reduce((a, b) => a + b);
}

/** Row tiles times output tiles. */
export function gemmTasks(s: Sizes): number {
  return Math.ceil(s.rows / ROW_TILE) * outTiles(s, TILE_OUTS);
}

export const gemm = defineOp({
  name: "gemm",
  doc: "y[r, yCol + o] = sum_i x[r,i] * w[o,i], o over w0 | w1 | w2 | w3; f32 arithmetic, any rows",
  tensors: {
    x: { axes: ["rows", "inDim"], dtypes: ["f32"], role: "in" },
    ...CONCATENATED_WEIGHTS,
    y: { axes: ["rows", "yStride"], dtypes: ["f32"], role: "out" },
  },
  params: { yCol: "u32" },
  constraints: [{ axis: "inDim", multipleOf: "group" }, COLUMNS_FIT],
  tasks: gemmTasks,
  simt: {
    threads: 128,
    groups: (s) => [Math.ceil(s.rows / THREADGROUP_TILE), outTiles(s, THREADGROUP_TILE), 1],
  },
  reference: ({ x, w0, w1, w2, w3, y }, { yCol }, s) =>
    multiplyConcatenated(x, [w0, w1, w2, w3], y, { ...s, yCol }),
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { rows: 1, inDim: 16, out0: 1, out1: 0, out2: 0, out3: 0, yStride: 1, yCol: 0 },
    { rows: 2, inDim: 48, out0: 5, out1: 0, out2: 0, out3: 0, yStride: 7, yCol: 1 },
    { rows: 17, inDim: 77, out0: 9, out1: 2, out2: 0, out3: 0, yStride: 11, yCol: 0 },
    { rows: 33, inDim: 384, out0: 33, out1: 0, out2: 1, out3: 65, yStride: 101, yCol: 2 },
    { rows: 100, inDim: 128, out0: 64, out1: 30, out2: 4, out3: 129, yStride: 240, yCol: 0 },
    { rows: 512, inDim: 256, out0: 97, out1: 0, out2: 0, out3: 0, yStride: 97, yCol: 0 },
    { rows: 20, inDim: 5120, out0: 40, out1: 0, out2: 0, out3: 0, yStride: 48, yCol: 8 },
    { rows: 131, inDim: 1408, out0: 32, out1: 32, out2: 0, out3: 0, yStride: 64, yCol: 0 },
  ],
  flops: (s) => 2 * s.rows * outDim(s) * s.inDim,
  touched: { y: (s) => s.rows * outDim(s) },
});
