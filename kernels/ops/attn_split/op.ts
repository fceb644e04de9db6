import { defineOp, type Sizes, type Traffic } from "../../define.ts";
import {
  attend,
  fillCache,
  fillStep,
  HEAD_DIMS,
  headTiles,
  keysSeen,
  KV_DTYPES,
  LOWEST,
} from "../../shared/attention.ts";
import { ATTN_BLOCK, STEP, STEP_WORDS } from "../../step.ts";

/** Positions that the blocks of a record reach. */
const limit = (s: Sizes) => Math.min(s.ctx, s.blocks * ATTN_BLOCK);

function blocksOfRows(s: Sizes, at: Traffic): number {
  let blocks = 0;
  for (let r = 0; r < s.rows; r++) blocks += Math.ceil(keysSeen(at.pos, r, limit(s)) / ATTN_BLOCK);
  return blocks * s.qHeads;
}

function cacheRead(s: Sizes, at: Traffic): number {
  return s.kvHeads * s.headDim * keysSeen(at.pos, s.rows - 1, limit(s));
}

export const attnSplit = defineOp({
  name: "attn_split",
  doc:
    "stats[r,h,b] = (m, l), partial[r,h,b] = sum_j exp(s_j - m) * v[j], s_j = scale * q[r,h] . k[j], " +
    "m = max_j s_j, l = sum_j exp(s_j - m) over the keys j <= pos+r of block b",
  tensors: {
    q: { axes: ["rows", "qHeads", "headDim"], dtypes: ["f32"], role: "in" },
    kCache: { axes: ["kvHeads", "ctx", "headDim"], dtypes: KV_DTYPES, role: "in" },
    vCache: {
      axes: ["kvHeads", "ctx", "headDim"],
      dtypes: KV_DTYPES,
      role: "in",
      sameAs: "kCache",
    },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    partial: { axes: ["rows", "qHeads", "blocks", "headDim"], dtypes: ["f32"], role: "out" },
    stats: { axes: ["rows", "qHeads", "blocks", "stat"], dtypes: ["f32"], role: "out" },
  },
  params: { scale: "f32" },
  specialise: { headDim: HEAD_DIMS },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "stat", oneOf: [2] },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => s.rows * s.kvHeads * s.blocks,
  simt: { threads: 256, groups: (s) => [s.rows, s.blocks, s.kvHeads * headTiles(s)] },
  reference: ({ q, kCache, vCache, step, partial, stats }, { scale }, s) => {
    for (let r = 0; r < s.rows; r++) {
      for (let h = 0; h < s.qHeads; h++) {
        for (let b = 0; b < s.blocks && b * ATTN_BLOCK <= step[STEP.pos] + r; b++) {
          const at = (r * s.qHeads + h) * s.blocks + b;
          const from = b * ATTN_BLOCK;
          const to = Math.min(from + ATTN_BLOCK, keysSeen(step[STEP.pos], r, s.ctx));
          if (from >= to) {
            stats.set([LOWEST, 0], 2 * at);
            continue;
          }
          const { max, sum, weighted } = attend({ q, kCache, vCache }, scale, s, {
            r,
            h,
            from,
            to,
          });
          stats.set([max, sum], 2 * at);
          partial.set(weighted, at * s.headDim);
        }
      }
    }
  },
  tolerance: { f32: { rel: 1e-6, ofRms: 4e-6 } },
  cases: [
    { rows: 1, qHeads: 1, kvHeads: 1, headDim: 64, ctx: 1, blocks: 1, pos: 0 },
    { rows: 3, qHeads: 4, kvHeads: 2, headDim: 64, ctx: 300, blocks: 2, pos: 254 },
    { rows: 2, qHeads: 5, kvHeads: 2, headDim: 128, ctx: 400, blocks: 1, pos: 350 },
    { rows: 2, qHeads: 3, kvHeads: 1, headDim: 128, ctx: 33, blocks: 3, pos: 600 },
    { rows: 1, qHeads: 17, kvHeads: 1, headDim: 64, ctx: 40, blocks: 2, pos: 0xffffffff },
    { rows: 2, qHeads: 4, kvHeads: 2, headDim: 512, ctx: 270, blocks: 4, pos: 262 },
    { rows: 2, qHeads: 16, kvHeads: 2, headDim: 256, ctx: 700, blocks: 3, pos: 520 },
  ].map((s) => ({ ...s, stat: 2, stepWords: STEP_WORDS, scale: s.headDim ** -0.5 })),
  fill: { step: fillStep, kCache: fillCache, vCache: fillCache },
  flops: (s, at) => {
    let pairs = 0;
    for (let r = 0; r < s.rows; r++) pairs += keysSeen(at.pos, r, limit(s));
    return 4 * s.qHeads * s.headDim * pairs;
  },
  touched: {
    step: () => 1,
    kCache: cacheRead,
    vCache: cacheRead,
    partial: (s, at) => blocksOfRows(s, at) * s.headDim,
    stats: (s, at) => blocksOfRows(s, at) * s.stat,
  },
});
