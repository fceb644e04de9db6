import { defineOp } from "../../define.ts";
import { CONV_CONSTRAINTS, CONV_TENSORS, convolve } from "../../shared/conv.ts";

export const convVerify = defineOp({
  name: "conv_verify",
  doc: "y of conv_silu, bit by bit, while convState stays as it is: rows that may yet be rejected",
  tensors: { ...CONV_TENSORS, convState: { ...CONV_TENSORS.convState, role: "in" } },
  params: {},
  constraints: [...CONV_CONSTRAINTS, { axis: "rows", max: 16 }],
  tasks: (s) => Math.ceil(s.channels / 256),
  simt: { threads: 256, groups: (s) => [Math.ceil(s.channels / 256), Math.ceil(s.rows / 16), 1] },
  reference: (t, _, s) => convolve({ ...t, convState: t.convState.slice() }, s),
  tolerance: { f32: { rel: 8e-7, ofRms: 4e-7 } },
  cases: [
    { rows: 1, projStride: 1, channels: 1, taps: 4, past: 3 },
    { rows: 2, projStride: 40, channels: 37, taps: 4, past: 3 },
    { rows: 5, projStride: 700, channels: 516, taps: 4, past: 3 },
    { rows: 16, projStride: 12352, channels: 8192, taps: 4, past: 3 },
  ],
  flops: (s) => s.rows * s.channels * (2 * s.taps + 4),
  touched: { proj: (s) => s.rows * s.channels },
});
