import { defineOp } from "../../define.ts";
import {
  ACT8_ON_CPU_ONLY,
  exampleCodes,
  exampleScales,
  exampleSums,
  isSplit,
  unpackAct8,
} from "../../formats/act8.ts";
import {
  COLUMNS_FIT,
  CONCATENATED_AFFINE_WEIGHTS,
  multiplyConcatenated,
  outDim,
  ROWS_PER_TASK,
} from "../../shared/concatenation.ts";

/** `s.bits` is the width of the weights' codes: it decides the order of the activation codes. */
export const gemvAct8 = defineOp({
  name: "gemv_act8",
  doc:
    "y[r, yCol + o] = sum_i scales[r,i/32] * codes[r,i] * w[o,i], o over w0 | w1 | w2 | w3; rows <= 16",
  tensors: {
    codes: { axes: ["rows", "inDim"], dtypes: ["i8"], role: "in" },
    scales: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    sums: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    ...CONCATENATED_AFFINE_WEIGHTS,
    y: { axes: ["rows", "yStride"], dtypes: ["f32"], role: "out" },
  },
  params: { yCol: "u32" },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "inDim", multipleOf: 64 },
    { axis: "inDim", multipleOf: "group" },
    { axis: "inDim", max: 32768 },
    { product: ["groups", 32], equals: "inDim" },
    COLUMNS_FIT,
  ],
  tasks: (s) => Math.ceil(outDim(s) / ROWS_PER_TASK),
  simt: ACT8_ON_CPU_ONLY,
  reference: ({ codes, scales, w0, w1, w2, w3, y }, { yCol }, s) => {
    const x = unpackAct8(codes, scales, s.rows, s.inDim, isSplit(s.bits));
    multiplyConcatenated(x, [w0, w1, w2, w3], y, { ...s, yCol });
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-5 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, inDim: 64, groups: 2, out0: 1, out1: 0, out2: 0, out3: 0, yStride: 1, yCol: 0 },
    { rows: 3, inDim: 192, groups: 6, out0: 9, out1: 2, out2: 0, out3: 0, yStride: 11, yCol: 0 },
    { rows: 2, inDim: 128, groups: 4, out0: 33, out1: 0, out2: 1, out3: 31, yStride: 70, yCol: 3 },
    { rows: 16, inDim: 256, groups: 8, out0: 3, out1: 30, out2: 4, out3: 66, yStride: 103, yCol: 0 },
    { rows: 7, inDim: 1408, groups: 44, out0: 37, out1: 0, out2: 0, out3: 0, yStride: 37, yCol: 0 },
    { rows: 1, inDim: 2048, groups: 64, out0: 512, out1: 256, out2: 32, out3: 32, yStride: 832, yCol: 0 },
    { rows: 5, inDim: 5120, groups: 160, out0: 40, out1: 0, out2: 0, out3: 0, yStride: 48, yCol: 8 },
  ],
  fill: {
    codes: (s) => exampleCodes(s.rows, s.inDim),
    scales: (s) => exampleScales(s.rows, s.inDim),
    sums: (s) => exampleSums(s.rows, s.inDim, isSplit(s.bits)),
  },
  flops: (s) => 2 * s.rows * outDim(s) * s.inDim,
  touched: { y: (s) => s.rows * outDim(s) },
});
