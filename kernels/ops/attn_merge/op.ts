import { defineOp, type Sizes, type Traffic } from "../../define.ts";
import { fillStep, keysSeen } from "../../shared/attention.ts";
import { ATTN_BLOCK, STEP, STEP_WORDS } from "../../step.ts";

/** Blocks that row r merges. */
function blocksOf(pos: number, r: number, s: Sizes): number {
  return Math.ceil(keysSeen(pos, r, s.blocks * ATTN_BLOCK) / ATTN_BLOCK);
}

function blocksOfRows(s: Sizes, at: Traffic): number {
  let blocks = 0;
  for (let r = 0; r < s.rows; r++) blocks += blocksOf(at.pos, r, s);
  return blocks * s.qHeads;
}

export const attnMerge = defineOp({
  name: "attn_merge",
  doc: "o[r,h] = sum_b e_b * partial[r,h,b] / sum_b e_b * l_b, e_b = exp(m_b - max_b m_b), " +
    "(m_b, l_b) = stats[r,h,b], over the blocks b that hold keys 0..pos+r",
  tensors: {
    partial: { axes: ["rows", "qHeads", "blocks", "headDim"], dtypes: ["f32"], role: "in" },
    stats: { axes: ["rows", "qHeads", "blocks", "stat"], dtypes: ["f32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    o: { axes: ["rows", "qHeads", "headDim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "stat", oneOf: [2] },
    { axis: "headDim", multipleOf: 32 },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => s.rows * s.qHeads,
  simt: { threads: 128, groups: (s) => [Math.ceil(s.headDim / 128), s.rows * s.qHeads, 1] },
  reference: ({ partial, stats, step, o }, _p, s) => {
    for (let r = 0; r < s.rows; r++) {
      const blocks = blocksOf(step[STEP.pos], r, s);
      for (let h = 0; h < s.qHeads; h++) {
        const first = (r * s.qHeads + h) * s.blocks;
        let max = -Infinity;
        for (let b = 0; b < blocks; b++) max = Math.max(max, stats[2 * (first + b)]);
        let sum = 0;
        const weighted = new Float64Array(s.headDim);
        for (let b = 0; b < blocks; b++) {
          // A block without keys has the sum 0 and no partial.
          if (stats[2 * (first + b) + 1] === 0) continue;
          const e = Math.exp(stats[2 * (first + b)] - max);
          sum += e * stats[2 * (first + b) + 1];
          for (let d = 0; d < s.headDim; d++) {
            weighted[d] += e * partial[(first + b) * s.headDim + d];
          }
        }
        for (let d = 0; d < s.headDim; d++) {
          o[(r * s.qHeads + h) * s.headDim + d] = sum === 0 ? 0 : weighted[d] / sum;
        }
      }
    }
  },
  tolerance: { f32: { rel: 5e-7, ofRms: 5e-7 } },
  cases: [
    { rows: 1, qHeads: 1, headDim: 32, blocks: 1, pos: 0 },
    { rows: 3, qHeads: 3, headDim: 64, blocks: 4, pos: 510 },
    { rows: 2, qHeads: 5, headDim: 256, blocks: 9, pos: 0xffffffff },
    { rows: 16, qHeads: 16, headDim: 256, blocks: 8, pos: 1024 },
    { rows: 2, qHeads: 2, headDim: 160, blocks: 70, pos: 17150 },
  ].map((s) => ({ ...s, stat: 2, stepWords: STEP_WORDS })),
  fill: {
    step: fillStep,
    // Block 1 of every row is without keys; what a row does not merge is NaN.
    stats: (s, random) =>
      Float64Array.from({ length: s.rows * s.qHeads * s.blocks * 2 }, (_, i) => {
        const b = (i >> 1) % s.blocks;
        const r = Math.floor((i >> 1) / s.blocks / s.qHeads);
        if (b >= blocksOf(s.pos, r, s)) return NaN;
        if (i % 2) return b === 1 ? 0 : 1 + Math.abs(random());
        return b === 1 ? -3.4028234663852886e38 : 3 * random();
      }),
    partial: (s, random) =>
      Float64Array.from({ length: s.rows * s.qHeads * s.blocks * s.headDim }, (_, i) => {
        const b = Math.floor(i / s.headDim) % s.blocks;
        const r = Math.floor(i / s.headDim / s.blocks / s.qHeads);
        return b === 1 || b >= blocksOf(s.pos, r, s) ? NaN : random();
      }),
  },
  flops: (s, at) => 3 * blocksOfRows(s, at) * s.headDim,
  touched: {
    step: () => 1,
    partial: (s, at) => blocksOfRows(s, at) * s.headDim,
    stats: (s, at) => blocksOfRows(s, at) * s.stat,
  },
});
