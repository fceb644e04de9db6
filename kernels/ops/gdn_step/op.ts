import { defineOp } from "../../define.ts";
import {
  GDN_CONSTRAINTS,
  GDN_FILL,
  GDN_PARAMS,
  GDN_TENSORS,
  GDN_TOUCHED,
  gdnRecurrence,
} from "../../shared/gdn.ts";

export const gdnStep = defineOp({
  name: "gdn_step",
  doc:
    "row by row: S[h] *= exp(g); d = beta * (v - S[h] k); S[h] += d k^T; o[r,h] = S[h] q (S[h][v][k] = gdnState)",
  tensors: GDN_TENSORS,
  params: GDN_PARAMS,
  constraints: GDN_CONSTRAINTS,
  tasks: (s) => s.vHeads * (s.headDim / 16),
  simt: { threads: 128, groups: (s) => [s.headDim / 16, s.vHeads, 1] },
  reference: gdnRecurrence,
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { rows: 1, two: 2, kHeads: 1, headDim: 16, channels: 48, vHeads: 1, headMap: 0 },
    { rows: 3, two: 2, kHeads: 2, headDim: 48, channels: 400, vHeads: 4, headMap: 1 },
    { rows: 2, two: 2, kHeads: 2, headDim: 256, channels: 2560, vHeads: 6, headMap: 0 },
    { rows: 1, two: 2, kHeads: 16, headDim: 128, channels: 8192, vHeads: 32, headMap: 0 },
    { rows: 16, two: 2, kHeads: 2, headDim: 128, channels: 1024, vHeads: 4, headMap: 1 },
    { rows: 37, two: 2, kHeads: 1, headDim: 128, channels: 512, vHeads: 2, headMap: 0 },
  ],
  fill: GDN_FILL,
  flops: (s) => 7 * s.rows * s.vHeads * s.headDim ** 2,
  touched: GDN_TOUCHED,
});
