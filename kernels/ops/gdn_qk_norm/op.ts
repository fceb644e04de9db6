import { defineOp } from "../../define.ts";

export const gdnQkNorm = defineOp({
  name: "gdn_qk_norm",
  doc:
    "qk[r,i,h,d] = x[d] / sqrt(sum_d(x[d]^2) + eps) * (i == 0 ? headDim^-0.5 : 1), x = conv[r, (i*kHeads+h)*headDim ..]",
  tensors: {
    conv: { axes: ["rows", "channels"], dtypes: ["f32"], role: "in" },
    qk: { axes: ["rows", "two", "kHeads", "headDim"], dtypes: ["f32"], role: "out" },
  },
  params: { eps: "f32" },
  constraints: [
    { axis: "two", oneOf: [2] },
    { sum: [["two", "kHeads", "headDim"]], atMost: "channels" },
  ],
  tasks: (s) => s.rows,
  simt: { threads: 128, groups: (s) => [Math.ceil(2 * s.kHeads / 4), s.rows, 1] },
  reference: ({ conv, qk }, { eps }, { rows, channels, kHeads, headDim }) => {
    for (let r = 0; r < rows; r++) {
      for (let h = 0; h < 2 * kHeads; h++) {
        const from = r * channels + h * headDim, to = (r * 2 * kHeads + h) * headDim;
        let sum = 0;
        for (let d = 0; d < headDim; d++) sum += conv[from + d] ** 2;
        const scale = (h < kHeads ? headDim ** -0.5 : 1) / Math.sqrt(sum + eps);
        for (let d = 0; d < headDim; d++) qk[to + d] = conv[from + d] * scale;
      }
    }
  },
  tolerance: { f32: { rel: 6e-7, ofRms: 1e-7 } },
  cases: [
    { rows: 1, channels: 2, two: 2, kHeads: 1, headDim: 1, eps: 1e-6 },
    { rows: 3, channels: 300, two: 2, kHeads: 3, headDim: 37, eps: 1e-6 },
    { rows: 5, channels: 96, two: 2, kHeads: 1, headDim: 48, eps: 1e-5 },
    { rows: 17, channels: 8192, two: 2, kHeads: 16, headDim: 128, eps: 1e-6 },
  ],
  flops: (s) => s.rows * 2 * s.kHeads * s.headDim * 3,
  touched: { conv: (s) => s.rows * 2 * s.kHeads * s.headDim },
});
