import { defineOp, type Sizes } from "../../define.ts";
import {
  attend,
  ATTEND_TENSORS,
  cacheSeen,
  fillCache,
  fillStep,
  HEAD_DIMS,
  headTiles,
  keysSeen,
} from "../../shared/attention.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

/** What `tree` of a case says of its mask. */
const TREE = { chain: 0, branches: 1, firstMasked: 2, biased: 3, allMasked: 4 } as const;

/** Row j is row i or one that it follows, where row i follows row (i - 1) >> 1. */
function follows(i: number, j: number): boolean {
  return i === j || (i > j && follows((i - 1) >> 1, j));
}

function maskAt(tree: number, i: number, j: number, random: number): number {
  switch (tree) {
    case TREE.chain:
      return j <= i ? 0 : -Infinity;
    case TREE.branches:
      return follows(i, j) ? 0 : -Infinity;
    case TREE.firstMasked:
      return j > 0 && follows(i, j) ? 0 : -Infinity;
    case TREE.biased:
      return follows(i, j) ? 6 * random - 3 : -40 * random;
    default:
      return -Infinity;
  }
}

const shared = { stepWords: STEP_WORDS };

export const attnTree = defineOp({
  name: "attn_tree",
  doc:
    "attn_decode for rows that form a tree: o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j] + b[r,j]) * v[j] over keys " +
    "j = 0..pos+rows-1, b[r,j] = mask[r, j-pos] from key pos on and 0 before; a row whose keys all have -inf gives 0",
  tensors: {
    q: ATTEND_TENSORS.q,
    kCache: ATTEND_TENSORS.kCache,
    vCache: ATTEND_TENSORS.vCache,
    step: ATTEND_TENSORS.step,
    mask: { axes: ["rows", "maskStride"], dtypes: ["f32"], role: "in" },
    o: ATTEND_TENSORS.o,
  },
  params: { scale: "f32" },
  specialise: { headDim: HEAD_DIMS },
  constraints: [
    { axis: "rows", max: 16 },
    { sum: ["rows"], atMost: "maskStride" },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => s.rows * s.kvHeads,
  simt: { threads: 256, groups: (s) => [s.rows, s.kvHeads * headTiles(s), 1] },
  reference: ({ q, kCache, vCache, step, mask, o }, { scale }, s) => {
    const pos = step[STEP.pos], to = keysSeen(pos, s.rows - 1, s.ctx);
    for (let r = 0; r < s.rows; r++) {
      const bias = (j: number) => j < pos ? 0 : mask[r * s.maskStride + j - pos];
      for (let h = 0; h < s.qHeads; h++) {
        const at = { r, h, from: 0, to };
        const { sum, weighted } = attend({ q, kCache, vCache }, scale, s, at, bias);
        const first = (r * s.qHeads + h) * s.headDim;
        weighted.forEach((x, d) => o[first + d] = sum === 0 ? 0 : x / sum);
      }
    }
  },
  tolerance: { f32: { rel: 1e-6, ofRms: 4e-6 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, qHeads: 1, kvHeads: 1, headDim: 64, ctx: 1, pos: 0, maskStride: 16, tree: TREE.chain },
    { rows: 5, qHeads: 3, kvHeads: 1, headDim: 64, ctx: 280, pos: 250, maskStride: 19, tree: TREE.chain },
    { rows: 16, qHeads: 5, kvHeads: 2, headDim: 64, ctx: 20, pos: 0, maskStride: 16, tree: TREE.chain },
    { rows: 3, qHeads: 4, kvHeads: 2, headDim: 64, ctx: 40, pos: 30, maskStride: 3, tree: TREE.branches },
    { rows: 7, qHeads: 6, kvHeads: 1, headDim: 128, ctx: 300, pos: 253, maskStride: 16, tree: TREE.branches },
    { rows: 16, qHeads: 8, kvHeads: 1, headDim: 128, ctx: 70, pos: 0, maskStride: 16, tree: TREE.firstMasked },
    { rows: 5, qHeads: 5, kvHeads: 2, headDim: 64, ctx: 40, pos: 7, maskStride: 5, tree: TREE.firstMasked },
    { rows: 6, qHeads: 4, kvHeads: 2, headDim: 64, ctx: 270, pos: 256, maskStride: 7, tree: TREE.allMasked },
    { rows: 2, qHeads: 3, kvHeads: 1, headDim: 256, ctx: 9, pos: 0, maskStride: 2, tree: TREE.allMasked },
    { rows: 9, qHeads: 3, kvHeads: 3, headDim: 64, ctx: 25, pos: 11, maskStride: 11, tree: TREE.biased },
    { rows: 4, qHeads: 2, kvHeads: 1, headDim: 64, ctx: 13, pos: 11, maskStride: 4, tree: TREE.branches },
    { rows: 2, qHeads: 19, kvHeads: 1, headDim: 256, ctx: 33, pos: 0xffffffff, maskStride: 2, tree: TREE.branches },
    { rows: 3, qHeads: 8, kvHeads: 2, headDim: 512, ctx: 270, pos: 262, maskStride: 16, tree: TREE.branches },
    { rows: 3, qHeads: 16, kvHeads: 2, headDim: 256, ctx: 700, pos: 600, maskStride: 16, tree: TREE.biased },
  ].map((s) => ({ ...s, ...shared, scale: s.headDim ** -0.5 })),
  fill: {
    step: fillStep,
    kCache: fillCache,
    vCache: fillCache,
    // Columns behind the rows are nobody's.
    mask: (s, random) =>
      Float64Array.from({ length: s.rows * s.maskStride }, (_, at) => {
        const i = Math.floor(at / s.maskStride), j = at % s.maskStride;
        return j < s.rows ? maskAt(s.tree, i, j, random()) : NaN;
      }),
  },
  flops: (s, at) => 4 * s.qHeads * s.headDim * s.rows * keysSeen(at.pos, s.rows - 1, s.ctx),
  touched: { step: () => 1, kCache: cacheSeen, vCache: cacheSeen, mask: (s: Sizes) => s.rows ** 2 },
});
