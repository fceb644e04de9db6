import { defineOp } from "../../define.ts";
import {
  AFFINE_FORMATS,
  type AffineFormat,
  packAffine,
  unpackWeight,
} from "../../formats/affine.ts";

/** `s.bits`, `s.group` and `s.f16Scales` (1 or 0) are the parts of the format of w. */
export const quantizeAffine = defineOp({
  name: "quantize_affine",
  doc: "w[o,i] = scale * code + bias per group of x[o,i], by MLX's rule (formats/affine.ts)",
  tensors: {
    x: { axes: ["out", "inDim"], dtypes: ["f32", "f16", "bf16"], role: "in" },
    w: { axes: ["out", "inDim"], dtypes: AFFINE_FORMATS, role: "out", weight: true },
  },
  params: {},
  constraints: [{ axis: "inDim", multipleOf: "group" }],
  tasks: (s) => s.out,
  simt: { threads: 64, groups: (s) => [s.out, 1, 1] },
  reference: ({ x, w }, _, s) => {
    const format = `q${s.bits}g${s.group}_${s.f16Scales ? "f16" : "bf16"}` as AffineFormat;
    w.set(unpackWeight(format, packAffine(format, x)));
  },
  tolerance: { f32: { rel: 0, ofRms: 0 } },
  cases: [
    { out: 1, inDim: 16 },
    { out: 3, inDim: 48 },
    { out: 2, inDim: 192 },
    { out: 5, inDim: 128 },
    { out: 16, inDim: 2048 },
  ],
  flops: (s) => 6 * s.out * s.inDim,
});
