import { defineOp } from "../../define.ts";
import { AFFINE_FORMATS, type AffineFormat, unpackWeight } from "../../formats/affine.ts";
import { randomAffineParts } from "../../formats/random.ts";

/** `s.bits`, `s.group` and `s.f16Scales` (1 or 0) are the parts of the format of w. */
export const randomAffine = defineOp({
  name: "random_affine",
  doc:
    "w[o,i] = scale * code + bias with codes and scales hashed from seed and place (formats/random.ts)",
  tensors: {
    w: { axes: ["out", "inDim"], dtypes: AFFINE_FORMATS, role: "out", weight: true },
  },
  params: { seedLo: "u32", seedHi: "u32", step: "f32" },
  constraints: [{ axis: "inDim", multipleOf: "group" }],
  tasks: (s) => s.out,
  simt: { threads: 64, groups: (s) => [s.out, 1, 1] },
  reference: ({ w }, { seedLo, seedHi, step }, s) => {
    const format = `q${s.bits}g${s.group}_${s.f16Scales ? "f16" : "bf16"}` as AffineFormat;
    w.set(unpackWeight(format, randomAffineParts(format, s.out * s.inDim, seedLo, seedHi, step)));
  },
  tolerance: { f32: { rel: 0, ofRms: 0 } },
  cases: [
    { out: 1, inDim: 16, seedLo: 0, seedHi: 0, step: 1 },
    { out: 3, inDim: 48, seedLo: 1, seedHi: 2, step: 0.01 },
    { out: 2, inDim: 192, seedLo: 4294967295, seedHi: 77, step: 0.03 },
    { out: 5, inDim: 128, seedLo: 123456789, seedHi: 4294967295, step: 0.0123 },
    { out: 16, inDim: 2048, seedLo: 7, seedHi: 0, step: 0.004 },
  ],
  flops: () => 0,
});
