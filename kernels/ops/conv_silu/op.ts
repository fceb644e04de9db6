import { defineOp } from "../../define.ts";

export const convSilu = defineOp({
  name: "conv_silu",
  doc:
    "y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]), u = convState ++ proj[:, 0:channels]; convState = the last 3 rows of u",
  tensors: {
    proj: { axes: ["rows", "projStride"], dtypes: ["f32"], role: "in" },
    w: { axes: ["channels", "taps"], dtypes: ["f32"], role: "in" },
    convState: { axes: ["past", "channels"], dtypes: ["f32"], role: "inout" },
    y: { axes: ["rows", "channels"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [
    { axis: "taps", oneOf: [4] },
    { axis: "past", oneOf: [3] },
    { sum: ["channels"], atMost: "projStride" },
  ],
  tasks: (s) => Math.ceil(s.channels / 256),
  simt: { threads: 256, groups: () => [1, 1, 1] },
  reference: ({ proj, w, convState, y }, _, { rows, projStride, channels, taps, past }) => {
    for (let c = 0; c < channels; c++) {
      const u: number[] = [];
      for (let i = 0; i < past; i++) u.push(convState[i * channels + c]);
      for (let t = 0; t < rows; t++) u.push(proj[t * projStride + c]);
      for (let t = 0; t < rows; t++) {
        let sum = 0;
        for (let j = 0; j < taps; j++) sum += w[c * taps + j] * u[t + j];
        y[t * channels + c] = sum / (1 + Math.exp(-sum));
      }
      for (let i = 0; i < past; i++) convState[i * channels + c] = u[rows + i];
    }
  },
  tolerance: { f32: { rel: 8e-7, ofRms: 4e-7 } },
  cases: [
    { rows: 1, projStride: 1, channels: 1, taps: 4, past: 3 },
    { rows: 2, projStride: 40, channels: 37, taps: 4, past: 3 },
    { rows: 3, projStride: 257, channels: 257, taps: 4, past: 3 },
    { rows: 4, projStride: 700, channels: 516, taps: 4, past: 3 },
    { rows: 1, projStride: 12352, channels: 8192, taps: 4, past: 3 },
    { rows: 70, projStride: 12352, channels: 8192, taps: 4, past: 3 },
  ],
  flops: (s) => s.rows * s.channels * (2 * s.taps + 4),
  touched: { proj: (s) => s.rows * s.channels },
});
