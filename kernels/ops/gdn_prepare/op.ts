import { defineOp, type Sizes } from "../../define.ts";
import { CONV_CONSTRAINTS, CONV_TENSORS, convolve } from "../../shared/conv.ts";
import { gdnGates } from "../gdn_gates/op.ts";
import { gdnQkNorm } from "../gdn_qk_norm/op.ts";

/** Channels behind those of q and k. */
const valueChannels = (s: Sizes) => s.channels - 2 * s.kHeads * s.headDim;

export const gdnPrepare = defineOp({
  name: "gdn_prepare",
  doc:
    "conv_silu, gdn_gates and gdn_qk_norm of the same rows, bit by bit: what gdn_step takes from proj and convState; rows <= 16",
  tensors: {
    proj: CONV_TENSORS.proj,
    w: CONV_TENSORS.w,
    convState: CONV_TENSORS.convState,
    negA: gdnGates.tensors.negA,
    dtBias: gdnGates.tensors.dtBias,
    conv: CONV_TENSORS.y,
    qk: gdnQkNorm.tensors.qk,
    beta: gdnGates.tensors.beta,
    g: gdnGates.tensors.g,
  },
  params: { bCol: "u32", aCol: "u32", eps: "f32" },
  constraints: [
    ...CONV_CONSTRAINTS,
    ...gdnGates.constraints,
    ...gdnQkNorm.constraints,
    { axis: "rows", max: 16 },
    { axis: "headDim", max: 256 },
  ],
  // The heads of q and k, tiles of the channels behind them, the gates.
  tasks: (s) => 2 * s.kHeads + Math.ceil(valueChannels(s) / 256) + 1,
  // The same with a simdgroup a head, and a thread a channel or a gate.
  simt: {
    threads: 64,
    groups: (s) => [
      s.kHeads + Math.ceil(valueChannels(s) / 64) + Math.ceil(s.rows * s.vHeads / 64),
      1,
      1,
    ],
  },
  reference: (t, p, s) => {
    convolve({ ...t, y: t.conv }, s);
    gdnGates.reference(t, p, s);
    gdnQkNorm.reference(t, p, s);
  },
  tolerance: { f32: { rel: 1.5e-6, ofRms: 1e-6 } },
  cases: [
    { rows: 1, projStride: 4, channels: 2, vHeads: 1, kHeads: 1, headDim: 1, bCol: 2, aCol: 3 },
    {
      rows: 3,
      projStride: 360,
      channels: 307,
      vHeads: 17,
      kHeads: 3,
      headDim: 37,
      bCol: 310,
      aCol: 330,
    },
    {
      rows: 2,
      projStride: 700,
      channels: 512,
      vHeads: 3,
      kHeads: 1,
      headDim: 256,
      bCol: 697,
      aCol: 690,
    },
    {
      rows: 5,
      projStride: 300,
      channels: 260,
      vHeads: 4,
      kHeads: 2,
      headDim: 48,
      bCol: 292,
      aCol: 296,
    },
    {
      rows: 16,
      projStride: 700,
      channels: 600,
      vHeads: 5,
      kHeads: 1,
      headDim: 144,
      bCol: 620,
      aCol: 600,
    },
    {
      rows: 1,
      projStride: 12352,
      channels: 8192,
      vHeads: 32,
      kHeads: 16,
      headDim: 128,
      bCol: 12288,
      aCol: 12320,
    },
  ].map((s) => ({ ...s, taps: 4, past: 3, two: 2, eps: 1e-6 })),
  fill: gdnGates.fill,
  flops: (s, at) =>
    s.rows * s.channels * (2 * s.taps + 4) + gdnGates.flops(s, at) + gdnQkNorm.flops(s, at),
  touched: { proj: (s) => s.rows * (s.channels + 2 * s.vHeads) },
});
