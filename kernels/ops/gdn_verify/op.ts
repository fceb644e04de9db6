import { defineOp } from "../../define.ts";
import {
  GDN_CONSTRAINTS,
  GDN_FILL,
  GDN_PARAMS,
  GDN_TENSORS,
  GDN_TOUCHED,
  gdnRecurrence,
} from "../../shared/gdn.ts";

export const gdnVerify = defineOp({
  name: "gdn_verify",
  doc:
    "o of gdn_step, bit by bit, while gdnState stays as it is, and d, by which rows that are not rejected change it: S = exp(g) S + d k^T",
  tensors: {
    ...GDN_TENSORS,
    gdnState: { ...GDN_TENSORS.gdnState, role: "in" },
    d: { axes: ["rows", "vHeads", "headDim"], dtypes: ["f32"], role: "out" },
  },
  params: GDN_PARAMS,
  constraints: [...GDN_CONSTRAINTS, { axis: "rows", max: 16 }],
  tasks: (s) => s.vHeads * (s.headDim / 16),
  simt: { threads: 128, groups: (s) => [s.headDim / 16, s.vHeads, 1] },
  reference: (t, p, s) => gdnRecurrence({ ...t, gdnState: t.gdnState.slice() }, p, s),
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { rows: 1, two: 2, kHeads: 1, headDim: 16, channels: 48, vHeads: 1, headMap: 0 },
    { rows: 3, two: 2, kHeads: 2, headDim: 48, channels: 400, vHeads: 4, headMap: 1 },
    { rows: 2, two: 2, kHeads: 2, headDim: 256, channels: 2560, vHeads: 6, headMap: 0 },
    { rows: 4, two: 2, kHeads: 16, headDim: 128, channels: 8192, vHeads: 32, headMap: 0 },
    { rows: 16, two: 2, kHeads: 2, headDim: 128, channels: 1024, vHeads: 4, headMap: 1 },
  ],
  fill: GDN_FILL,
  flops: (s) => 7 * s.rows * s.vHeads * s.headDim ** 2,
  touched: GDN_TOUCHED,
});
