import { defineOp, type Sizes } from "../../define.ts";
import { CONV_CONSTRAINTS, CONV_TENSORS, convolve } from "../../shared/conv.ts";
import { GDN_HEADS, GDN_PARAMS, GDN_TENSORS, gdnRecurrence } from "../../shared/gdn.ts";
import { gatedRmsNorm } from "../gated_rms_norm/op.ts";
import { gdnGates } from "../gdn_gates/op.ts";
import { gdnQkNorm } from "../gdn_qk_norm/op.ts";

/** Projected rows are qkv | z | b | a, with a gap of other values between them. */
function exampleSizes(
  { gap, ...s }: Readonly<Record<"kHeads" | "vHeads" | "headDim" | "gap", number>> & Sizes,
): Sizes {
  const channels = (2 * s.kHeads + s.vHeads) * s.headDim, zCol = channels + gap;
  const bCol = zCol + s.vHeads * s.headDim + gap, aCol = bCol + s.vHeads + gap;
  const projStride = aCol + s.vHeads + gap;
  return { ...s, channels, zCol, bCol, aCol, projStride, taps: 4, past: 3, eps: 1e-5, qkEps: 1e-6 };
}

export const gdnDecode = defineOp({
  name: "gdn_decode",
  doc: "conv_silu, gdn_gates, gdn_qk_norm, gdn_step and gated_rms_norm of its o, bit by bit: " +
    "what a recurrent layer makes of proj between its two products; rows <= 16",
  tensors: {
    proj: CONV_TENSORS.proj,
    w: CONV_TENSORS.w,
    convState: CONV_TENSORS.convState,
    negA: gdnGates.tensors.negA,
    dtBias: gdnGates.tensors.dtBias,
    gdnState: GDN_TENSORS.gdnState,
    wNorm: gatedRmsNorm.tensors.w,
    y: gatedRmsNorm.tensors.y,
  },
  params: {
    kHeads: "u32",
    ...GDN_PARAMS,
    ...gdnGates.params,
    ...gatedRmsNorm.params,
    qkEps: "f32",
  },
  constraints: [
    ...CONV_CONSTRAINTS,
    ...gdnGates.constraints,
    ...GDN_HEADS,
    { sum: [[2, "kHeads", "headDim"], ["vHeads", "headDim"]], equals: "channels" },
    ...gatedRmsNorm.constraints,
    { axis: "rows", max: 16 },
  ],
  // A key head with its value heads: each channel has one task, which reads and writes its state.
  tasks: (s) => s.kHeads,
  simt: { threads: 512, groups: (s) => [s.kHeads, 1, 1] },
  reference: (t, p, s) => {
    const { rows, channels, kHeads, vHeads, headDim } = s;
    const floats = (...sizes: number[]) => new Float64Array(sizes.reduce((a, b) => a * b));
    const conv = floats(rows, channels), qk = floats(rows, 2, kHeads, headDim);
    const beta = floats(rows, vHeads), g = floats(rows, vHeads), o = floats(rows, vHeads, headDim);
    convolve({ ...t, y: conv }, s);
    gdnGates.reference({ ...t, beta, g }, p, s);
    gdnQkNorm.reference({ conv, qk }, { eps: p.qkEps }, s);
    gdnRecurrence({ ...t, qk, conv, g, beta, o }, p, s);
    gatedRmsNorm.reference({ ...t, o, w: t.wNorm }, p, s);
  },
  tolerance: { f32: { rel: 3e-6, ofRms: 4e-6 } },
  cases: [
    { rows: 1, kHeads: 1, headDim: 16, vHeads: 1, headMap: 0, gap: 0 },
    { rows: 3, kHeads: 2, headDim: 48, vHeads: 4, headMap: 1, gap: 5 },
    { rows: 2, kHeads: 2, headDim: 256, vHeads: 6, headMap: 0, gap: 0 },
    { rows: 5, kHeads: 1, headDim: 144, vHeads: 1, headMap: 0, gap: 3 },
    { rows: 4, kHeads: 3, headDim: 16, vHeads: 15, headMap: 1, gap: 1 },
    { rows: 1, kHeads: 16, headDim: 128, vHeads: 32, headMap: 0, gap: 0 },
    { rows: 16, kHeads: 2, headDim: 128, vHeads: 4, headMap: 1, gap: 0 },
    { rows: 7, kHeads: 3, headDim: 128, vHeads: 3, headMap: 0, gap: 2 },
    { rows: 10, kHeads: 2, headDim: 128, vHeads: 6, headMap: 1, gap: 0 },
    { rows: 3, kHeads: 1, headDim: 128, vHeads: 4, headMap: 0, gap: 0 },
  ].map(exampleSizes),
  fill: gdnGates.fill,
  flops: (s, at) =>
    s.rows * s.channels * (2 * s.taps + 4) + gdnGates.flops(s, at) + gdnQkNorm.flops(s, at) +
    7 * s.rows * s.vHeads * s.headDim ** 2 + gatedRmsNorm.flops(s, at),
  touched: { proj: (s) => s.rows * (s.channels + s.vHeads * (2 + s.headDim)) },
});
