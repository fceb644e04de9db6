import { defineOp } from "../../define.ts";
import { normRow } from "../../shared/norm.ts";
import {
  COLUMNS_FIT,
  CONCATENATED_WEIGHTS,
  multiplyConcatenated,
  outDim,
  ROWS_PER_TASK,
} from "../../shared/concatenation.ts";

export const normGemv = defineOp({
  name: "norm_gemv",
  doc:
    "y[r, yCol + o] = sum_i x[r,i] / sqrt(mean_i(x[r,i]^2) + eps) * wNorm[i] * w[o,i], o over w0 | w1 | w2 | w3: " +
    "gemv of rms_norm in f32, rows <= 16",
  tensors: {
    x: { axes: ["rows", "inDim"], dtypes: ["f32"], role: "in" },
    ...CONCATENATED_WEIGHTS,
    wNorm: { axes: ["inDim"], dtypes: ["f32"], role: "in" },
    y: { axes: ["rows", "yStride"], dtypes: ["f32"], role: "out" },
  },
  params: { yCol: "u32", eps: "f32" },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "inDim", multipleOf: "group" },
    { axis: "inDim", max: 32768 },
    COLUMNS_FIT,
  ],
  tasks: (s) => Math.ceil(outDim(s) / ROWS_PER_TASK),
  // Tiles of 8 columns, each weight with its own, by chunks of 4 rows: TILE and ROWS of norm_gemv.metal.
  simt: {
    threads: 64,
    groups: (s) => {
      const tiles = [s.out0, s.out1, s.out2, s.out3].map((out) => Math.ceil(out / 8));
      return [tiles.reduce((a, b) => a + b) * Math.ceil(s.rows / 4), 1, 1];
    },
  },
  reference: ({ x, w0, w1, w2, w3, wNorm, y }, { yCol, eps }, s) => {
    const normed = x.slice();
    for (let at = 0; at < normed.length; at += s.inDim) {
      const row = normed.subarray(at, at + s.inDim);
      normRow(row, wNorm, row, eps);
    }
    multiplyConcatenated(normed, [w0, w1, w2, w3], y, { ...s, yCol });
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-5 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, inDim: 16, out0: 1, out1: 0, out2: 0, out3: 0, yStride: 1, yCol: 0 },
    { rows: 1, inDim: 48, out0: 5, out1: 0, out2: 0, out3: 0, yStride: 7, yCol: 1 },
    { rows: 3, inDim: 77, out0: 9, out1: 2, out2: 0, out3: 0, yStride: 11, yCol: 0 },
    { rows: 2, inDim: 192, out0: 33, out1: 0, out2: 1, out3: 31, yStride: 70, yCol: 3 },
    { rows: 16, inDim: 128, out0: 3, out1: 30, out2: 4, out3: 66, yStride: 103, yCol: 0 },
    { rows: 7, inDim: 1408, out0: 37, out1: 0, out2: 0, out3: 0, yStride: 37, yCol: 0 },
    { rows: 1, inDim: 2048, out0: 512, out1: 256, out2: 32, out3: 32, yStride: 832, yCol: 0 },
    { rows: 2, inDim: 2816, out0: 40, out1: 8, out2: 0, out3: 0, yStride: 48, yCol: 0 },
    { rows: 5, inDim: 5120, out0: 40, out1: 0, out2: 0, out3: 0, yStride: 48, yCol: 8 },
  ].map((s) => ({ ...s, eps: 1e-6 })),
  fill: {
    // As hidden states are: a row's size is its own.
    x: (s, random) =>
      Float64Array.from(
        { length: s.rows * s.inDim },
        (_, i) => (random() + random() - 1) * 8 ** (Math.floor(i / s.inDim) % 4 - 1),
      ),
  },
  flops: (s) => 2 * s.rows * outDim(s) * s.inDim + 4 * s.rows * s.inDim,
  touched: { y: (s) => s.rows * outDim(s) },
});
