import { defineOp } from "../../define.ts";
import {
  GDN_CONSTRAINTS,
  GDN_FILL,
  GDN_PARAMS,
  GDN_TENSORS,
  GDN_TOUCHED,
  gdnRecurrence,
} from "../../shared/gdn.ts";
import { gatedRmsNorm } from "../gated_rms_norm/op.ts";

const { o: _, ...INPUTS } = GDN_TENSORS;

export const gdnStepNorm = defineOp({
  name: "gdn_step_norm",
  doc: "gdn_step and gated_rms_norm of its o, bit by bit, which is not kept: " +
    "y[r,h,d] = o[r,h,d] / sqrt(mean_d(o[r,h,d]^2) + eps) * w[d] * silu(proj[r, zCol + h*headDim + d]); rows <= 16",
  tensors: {
    ...INPUTS,
    proj: gatedRmsNorm.tensors.proj,
    w: gatedRmsNorm.tensors.w,
    y: gatedRmsNorm.tensors.y,
  },
  params: { ...GDN_PARAMS, zCol: "u32", eps: "f32" },
  constraints: [...GDN_CONSTRAINTS, ...gatedRmsNorm.constraints, { axis: "rows", max: 16 }],
  tasks: (s) => s.vHeads,
  simt: { threads: 512, groups: (s) => [s.vHeads, 1, 1] },
  reference: (t, p, s) => {
    const o = new Float64Array(t.y.length);
    gdnRecurrence({ ...t, o }, p, s);
    gatedRmsNorm.reference({ ...t, o }, p, s);
  },
  tolerance: { f32: { rel: 4e-6, ofRms: 6e-6 } },
  cases: [
    {
      rows: 1,
      kHeads: 1,
      headDim: 16,
      channels: 48,
      vHeads: 1,
      headMap: 0,
      projStride: 16,
      zCol: 0,
    },
    {
      rows: 3,
      kHeads: 2,
      headDim: 48,
      channels: 400,
      vHeads: 4,
      headMap: 1,
      projStride: 203,
      zCol: 11,
    },
    {
      rows: 2,
      kHeads: 2,
      headDim: 256,
      channels: 2560,
      vHeads: 6,
      headMap: 0,
      projStride: 1600,
      zCol: 64,
    },
    {
      rows: 5,
      kHeads: 1,
      headDim: 144,
      channels: 440,
      vHeads: 1,
      headMap: 0,
      projStride: 150,
      zCol: 5,
    },
    {
      rows: 1,
      kHeads: 16,
      headDim: 128,
      channels: 8192,
      vHeads: 32,
      headMap: 0,
      projStride: 12352,
      zCol: 8192,
    },
    {
      rows: 16,
      kHeads: 2,
      headDim: 128,
      channels: 1024,
      vHeads: 4,
      headMap: 1,
      projStride: 512,
      zCol: 0,
    },
  ].map((s) => ({ ...s, two: 2, eps: 1e-6 })),
  fill: GDN_FILL,
  flops: (s, at) => 7 * s.rows * s.vHeads * s.headDim ** 2 + gatedRmsNorm.flops(s, at),
  touched: { ...GDN_TOUCHED, proj: (s) => s.rows * s.vHeads * s.headDim },
});
