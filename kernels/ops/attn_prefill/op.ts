import { defineOp } from "../../define.ts";
import {
  ATTEND_TENSORS,
  attendRows,
  cacheSeen,
  fillCache,
  fillStep,
  HEAD_DIMS,
  pairsSeen,
} from "../../shared/attention.ts";
import { STEP_WORDS } from "../../step.ts";

/** Rows of one task; QUERIES of the CPU kernel. */
const ROW_TILE = 48;
/** Rows and heads of one threadgroup; QUERIES of the .metal kernel. */
const QUERIES = 32;

export const attnPrefill = defineOp({
  name: "attn_prefill",
  doc: "attn_decode for any number of rows, in tiles of rows and keys",
  tensors: ATTEND_TENSORS,
  params: { scale: "f32" },
  specialise: { headDim: HEAD_DIMS },
  constraints: [{ axis: "stepWords", min: STEP_WORDS }],
  tasks: (s) => Math.ceil(s.rows / ROW_TILE) * s.qHeads,
  simt: {
    threads: 256,
    groups: (s) => [Math.ceil(s.rows * Math.ceil(s.qHeads / s.kvHeads) / QUERIES), s.kvHeads, 1],
  },
  reference: attendRows,
  tolerance: { f32: { rel: 1e-6, ofRms: 4e-6 } },
  cases: [
    { rows: 1, qHeads: 1, kvHeads: 1, headDim: 64, ctx: 1, pos: 0 },
    { rows: 33, qHeads: 2, kvHeads: 1, headDim: 128, ctx: 200, pos: 31 },
    { rows: 49, qHeads: 5, kvHeads: 2, headDim: 64, ctx: 64, pos: 0 },
    { rows: 97, qHeads: 2, kvHeads: 2, headDim: 64, ctx: 180, pos: 84 },
    { rows: 17, qHeads: 10, kvHeads: 1, headDim: 256, ctx: 150, pos: 111 },
    { rows: 5, qHeads: 4, kvHeads: 2, headDim: 512, ctx: 66, pos: 61 },
    { rows: 20, qHeads: 2, kvHeads: 1, headDim: 128, ctx: 65, pos: 60 },
    { rows: 2, qHeads: 1, kvHeads: 1, headDim: 64, ctx: 130, pos: 0xffffffff },
    { rows: 64, qHeads: 4, kvHeads: 1, headDim: 256, ctx: 257, pos: 193 },
  ].map((s) => ({ ...s, stepWords: STEP_WORDS, scale: s.headDim ** -0.5 })),
  fill: { step: fillStep, kCache: fillCache, vCache: fillCache },
  flops: (s, at) => 4 * s.qHeads * s.headDim * pairsSeen(s, at),
  touched: { step: () => 1, kCache: cacheSeen, vCache: cacheSeen },
});
