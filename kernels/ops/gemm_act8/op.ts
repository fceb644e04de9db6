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
} from "../../shared/concatenation.ts";
import { gemmTasks } from "../gemm/op.ts";

/** `s.bits` is the width of the weights' codes: it decides the order of the activation codes. */
export const gemmAct8 = defineOp({
  name: "gemm_act8",
  doc:
    "y[r, yCol + o] = sum_i scales[r,i/32] * codes[r,i] * w[o,i], o over w0 | w1 | w2 | w3; any rows",
  tensors: {
    codes: { axes: ["rows", "inDim"], dtypes: ["i8"], role: "in" },
    scales: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    sums: { axes: ["rows", "groups"], dtypes: ["f32"], role: "in" },
    ...CONCATENATED_AFFINE_WEIGHTS,
    y: { axes: ["rows", "yStride"], dtypes: ["f32"], role: "out" },
  },
  params: { yCol: "u32" },
  constraints: [
    { axis: "inDim", multipleOf: 64 },
    { axis: "inDim", multipleOf: "group" },
    { product: ["groups", 32], equals: "inDim" },
    COLUMNS_FIT,
  ],
  tasks: gemmTasks,
  simt: ACT8_ON_CPU_ONLY,
  reference: ({ codes, scales, w0, w1, w2, w3, y }, { yCol }, s) => {
    const x = unpackAct8(codes, scales, s.rows, s.inDim, isSplit(s.bits));
    multiplyConcatenated(x, [w0, w1, w2, w3], y, { ...s, yCol });
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, inDim: 64, groups: 2, out0: 1, out1: 0, out2: 0, out3: 0, yStride: 1, yCol: 0 },
    { rows: 2, inDim: 128, groups: 4, out0: 5, out1: 0, out2: 0, out3: 0, yStride: 7, yCol: 1 },
    { rows: 17, inDim: 192, groups: 6, out0: 9, out1: 2, out2: 0, out3: 0, yStride: 11, yCol: 0 },
    { rows: 33, inDim: 384, groups: 12, out0: 33, out1: 0, out2: 1, out3: 65, yStride: 101, yCol: 2 },
    { rows: 100, inDim: 128, groups: 4, out0: 64, out1: 30, out2: 4, out3: 129, yStride: 240, yCol: 0 },
    { rows: 512, inDim: 256, groups: 8, out0: 97, out1: 0, out2: 0, out3: 0, yStride: 97, yCol: 0 },
    { rows: 20, inDim: 5120, groups: 160, out0: 40, out1: 0, out2: 0, out3: 0, yStride: 48, yCol: 8 },
    { rows: 131, inDim: 1408, groups: 44, out0: 32, out1: 32, out2: 0, out3: 0, yStride: 64, yCol: 0 },
  ],
  fill: {
    codes: (s) => exampleCodes(s.rows, s.inDim),
    scales: (s) => exampleScales(s.rows, s.inDim),
    sums: (s) => exampleSums(s.rows, s.inDim, isSplit(s.bits)),
  },
  flops: (s) => 2 * s.rows * outDim(s) * s.inDim,
  touched: { y: (s) => s.rows * outDim(s) },
});
