import { defineOp } from "../../define.ts";
import {
  GDN_CONSTRAINTS,
  GDN_FILL,
  GDN_PARAMS,
  GDN_TENSORS,
  GDN_TOUCHED,
  gdnRecurrence,
} from "../../shared/gdn.ts";

const CHUNK = 64;

export const gdnChunk = defineOp({
  name: "gdn_chunk",
  doc:
    "gdn_step over chunks of 64 rows: (I + A) X = diag(beta) (V - e^G K S), O = e^G Q S + (Q K^T . D) X, S = e^G' S + K^T (D' X)",
  tensors: GDN_TENSORS,
  params: GDN_PARAMS,
  constraints: GDN_CONSTRAINTS,
  tasks: (s) => s.vHeads,
  simt: { threads: 128, groups: (s) => [Math.ceil(s.headDim / 32), s.vHeads, 1] },
  reference: gdnRecurrence,
  tolerance: { f32: { rel: 5e-6, ofRms: 5e-6 } },
  cases: [
    { rows: 1, two: 2, kHeads: 1, headDim: 16, channels: 48, vHeads: 1, headMap: 0 },
    { rows: 63, two: 2, kHeads: 2, headDim: 48, channels: 400, vHeads: 4, headMap: 1 },
    { rows: 64, two: 2, kHeads: 1, headDim: 256, channels: 1024, vHeads: 2, headMap: 0 },
    { rows: 65, two: 2, kHeads: 1, headDim: 80, channels: 480, vHeads: 3, headMap: 0 },
    { rows: 128, two: 2, kHeads: 2, headDim: 64, channels: 512, vHeads: 4, headMap: 1 },
    { rows: 200, two: 2, kHeads: 1, headDim: 128, channels: 512, vHeads: 2, headMap: 0 },
  ],
  fill: GDN_FILL,
  flops: (s) => {
    const perChunk = (n: number, d: number) =>
      2 * n * n * d + 2 * n * n * d / 2 * 2 + 3 * 2 * n * d * d;
    const tail = s.rows % CHUNK;
    return s.vHeads *
      (Math.floor(s.rows / CHUNK) * perChunk(CHUNK, s.headDim) + perChunk(tail, s.headDim));
  },
  touched: GDN_TOUCHED,
});
