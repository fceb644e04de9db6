import { defineOp } from "../../define.ts";
import {
  ATTEND_TENSORS,
  attendRows,
  cacheSeen,
  fillCache,
  fillStep,
  HEAD_DIMS,
  headTiles,
  pairsSeen,
} from "../../shared/attention.ts";
import { STEP_WORDS } from "../../step.ts";

export const attnDecode = defineOp({
  name: "attn_decode",
  doc:
    "o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) * v[j] over keys j = 0..pos+r of h's key head",
  tensors: ATTEND_TENSORS,
  params: { scale: "f32" },
  specialise: { headDim: HEAD_DIMS },
  constraints: [{ axis: "rows", max: 16 }, { axis: "stepWords", min: STEP_WORDS }],
  tasks: (s) => s.rows * s.kvHeads,
  simt: { threads: 256, groups: (s) => [s.rows, s.kvHeads * headTiles(s), 1] },
  reference: attendRows,
  tolerance: { f32: { rel: 1e-6, ofRms: 4e-6 } },
  cases: [
    { rows: 1, qHeads: 1, kvHeads: 1, headDim: 64, ctx: 1, pos: 0 },
    { rows: 3, qHeads: 4, kvHeads: 2, headDim: 64, ctx: 40, pos: 30 },
    { rows: 3, qHeads: 6, kvHeads: 1, headDim: 128, ctx: 300, pos: 254 },
    { rows: 6, qHeads: 5, kvHeads: 2, headDim: 64, ctx: 513, pos: 508 },
    { rows: 16, qHeads: 8, kvHeads: 1, headDim: 128, ctx: 70, pos: 60 },
    { rows: 2, qHeads: 19, kvHeads: 1, headDim: 256, ctx: 33, pos: 0xffffffff },
    { rows: 2, qHeads: 8, kvHeads: 2, headDim: 512, ctx: 270, pos: 262 },
    { rows: 1, qHeads: 16, kvHeads: 2, headDim: 256, ctx: 1100, pos: 1030 },
  ].map((s) => ({ ...s, stepWords: STEP_WORDS, scale: s.headDim ** -0.5 })),
  fill: { step: fillStep, kCache: fillCache, vCache: fillCache },
  flops: (s, at) => 4 * s.qHeads * s.headDim * pairsSeen(s, at),
  touched: { step: () => 1, kCache: cacheSeen, vCache: cacheSeen },
});
