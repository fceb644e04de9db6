import { defineOp } from "../../define.ts";
import { CONV_CONSTRAINTS, CONV_TENSORS, convolve } from "../../shared/conv.ts";

export const convSilu = defineOp({
  name: "conv_silu",
  doc:
    "y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]), u = convState ++ proj[:, 0:channels]; convState = the last 3 rows of u",
  tensors: CONV_TENSORS,
  params: {},
  constraints: CONV_CONSTRAINTS,
  tasks: (s) => Math.ceil(s.channels / 256),
  simt: { threads: 256, groups: (s) => [Math.ceil(s.channels / 256), Math.ceil(s.rows / 16), 1] },
  reference: (t, _, s) => convolve(t, s),
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
