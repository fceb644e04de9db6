/**
 * Kernels at the shapes of the real models, where published engines went wrong: head dimensions 256 and 512 with
 * their head counts, hidden sizes 2048, 2816 and 5120, 256 experts of which 8 work, convolutions of 8192 and 10240
 * channels, a vocabulary of 248320. Every op that has a .metal kernel is here, or under OF_NO_MODEL.
 *
 * What a kernel repeats without change is cut, or references and emulator take minutes: columns of a product (a
 * threadgroup has a few), keys, rows of an embedding table, rows of 256 experts. What a kernel is shaped by stays whole.
 */
import assert from "node:assert/strict";
import { ATTN_BLOCK, STEP_WORDS } from "../../kernels/step.ts";
import type { Sizes } from "../../kernels/define.ts";
import { OPS } from "../../kernels/table.ts";
import { failuresOf, prepareCase } from "./check_case.ts";
import { KERNEL_DEVICES, LEVELS } from "./devices.ts";
import { type Dtypes, opCase } from "./op_case.ts";

const HIDDEN = [2048, 2816, 5120];
const HEADS = [
  { qHeads: 16, kvHeads: 2, headDim: 256 },
  { qHeads: 24, kvHeads: 4, headDim: 256 },
  { qHeads: 16, kvHeads: 2, headDim: 512 },
];
const VOCAB = 248320;
const step = { stepWords: STEP_WORDS };
const norm = { eps: 1e-6 };

const CACHES: readonly Dtypes[] = [{ kCache: "f16" }, { kCache: "q8" }];
const WEIGHTS = ["q4g64_bf16", "q8g64_bf16", "bf16"] as const;
const FORMAT = WEIGHTS[0];

/** One set of sizes for each hidden size. */
const hidden = (axis: string, sizes: Sizes): Sizes[] =>
  HIDDEN.map((n) => ({ ...sizes, [axis]: n }));

const heads = (sizes: Sizes): Sizes[] =>
  HEADS.map((h) => ({
    ...h,
    ...step,
    scale: h.headDim ** -0.5,
    qkvWidth: 2 * (h.qHeads + h.kvHeads) * h.headDim,
    ...sizes,
  }));
const split = { rows: 2, blocks: 3, ctx: 3 * ATTN_BLOCK, pos: 600, stat: 2 };

/** Projected rows are qkv | z | b | a. */
const gdn = (sizes: Sizes): Sizes[] =>
  [{ vHeads: 32, channels: 8192 }, { vHeads: 48, channels: 10240 }].map((s) => ({
    ...s,
    ...step,
    ...norm,
    kHeads: 16,
    headDim: 128,
    two: 2,
    headMap: 0,
    taps: 4,
    past: 3,
    zCol: s.channels,
    bCol: s.channels + 128 * s.vHeads,
    aCol: s.channels + 129 * s.vHeads,
    projStride: s.channels + 130 * s.vHeads,
    ...sizes,
  }));

const product = { out0: 100, out1: 0, out2: 0, out3: 0, yStride: 100, yCol: 0 };
/** Projections of a GDN layer of 32 value heads, in one record. */
const grouped = { inDim: 2048, out0: 8192, out1: 4096, out2: 32, out3: 32, yStride: 12352 };
const GROUPED: Sizes = { ...grouped, rows: 1, yCol: 0 };

const routed = { experts: 256, topK: 8, logitStride: 257, slots: 9 };
const fewExperts = { ...routed, experts: 24 };
const ffnColumns = (n: number) => ({
  ffn: n,
  gateRows: 2 * n,
  upRows: 2 * n,
  gateRow: 0,
  upRow: n,
});
const runs = { ...routed, rows: 20, pairs: 160, expertsPlus1: 257 };

interface Shapes {
  readonly sizes: readonly Sizes[];
  /** Default: the first dtype of each tensor. */
  readonly dtypes?: readonly Dtypes[];
}

const SHAPES: Readonly<Record<string, Shapes>> = {
  rms_norm: { sizes: hidden("dim", { ...norm, rows: 2 }) },
  add_rms_norm: { sizes: hidden("dim", { ...norm, rows: 2 }) },
  norm_pair: {
    sizes: hidden("dim", { ...norm, rows: 2 }).map((s) => ({ ...s, twoDim: 2 * s.dim })),
  },
  select_row: { sizes: hidden("dim", { ...step, one: 1, rows: 16, committed: 7 }) },
  embed: {
    sizes: hidden("dim", { ...step, rows: 3, ctx: 40, vocab: 300, ahead: 0 }),
    dtypes: WEIGHTS.map((table) => ({ table })),
  },

  qk_norm_rope_append: {
    sizes: heads({ ...norm, rows: 2, rotHalf: 32, ctx: 40, pos: 30 }),
    dtypes: CACHES,
  },
  attn_decode: { sizes: heads({ rows: 2, ctx: 600, pos: 520 }), dtypes: CACHES },
  attn_decode_gate: { sizes: heads({ rows: 2, ctx: 600, pos: 520 }), dtypes: CACHES },
  attn_split: { sizes: heads(split), dtypes: CACHES },
  attn_merge: { sizes: heads(split) },
  attn_merge_gate: { sizes: heads(split) },
  attn_gate: { sizes: heads({ rows: 2 }) },
  attn_prefill: { sizes: heads({ rows: 40, ctx: 100, pos: 50 }), dtypes: CACHES },
  // tree 1: rows that branch.
  attn_tree: {
    sizes: heads({ rows: 7, ctx: 300, pos: 250, maskStride: 16, tree: 1 }),
    dtypes: CACHES,
  },

  conv_silu: { sizes: gdn({ rows: 5 }) },
  conv_verify: { sizes: gdn({ rows: 5 }) },
  gdn_gates: { sizes: gdn({ rows: 2 }) },
  gdn_qk_norm: { sizes: gdn({ rows: 2 }) },
  gdn_step: { sizes: gdn({ rows: 2 }) },
  gdn_decode: { sizes: gdn({ rows: 2, qkEps: 1e-6 }) },
  gdn_verify: { sizes: gdn({ rows: 2 }) },
  gdn_commit: { sizes: gdn({ layers: 1, rows: 4, committed: 3 }) },
  gdn_chunk: { sizes: gdn({ rows: 40 }) },
  gated_rms_norm: { sizes: gdn({ rows: 2 }) },

  gemv: {
    sizes: [...hidden("inDim", { ...product, rows: 3 }), GROUPED],
    dtypes: WEIGHTS.map((w0) => ({ w0 })),
  },
  norm_gemv: {
    sizes: [...hidden("inDim", { ...product, ...norm, rows: 3 }), { ...GROUPED, ...norm }],
    dtypes: WEIGHTS.map((w0) => ({ w0 })),
  },
  // Behind attention and behind a dense FFN.
  gemv_add: {
    sizes: [4096, 6144, 8192, 17408].map((inDim) => ({ rows: 3, inDim, out: 100 })),
    dtypes: WEIGHTS.map((w) => ({ w })),
  },
  gemm: {
    sizes: hidden("inDim", { ...product, rows: 33 }),
    dtypes: WEIGHTS.map((w0) => ({ w0 })),
  },
  swiglu: { sizes: [512, 17408].map((ffn) => ({ rows: 2, ffn, guStride: 2 * ffn })) },
  quantize_affine: { sizes: hidden("inDim", { out: 5 }), dtypes: [{ x: "bf16", w: FORMAT }] },
  random_affine: {
    sizes: hidden("inDim", { out: 5, seedLo: 7, seedHi: 9, step: 0.01 }),
    dtypes: [{ w: FORMAT }],
  },

  router_topk: { sizes: [{ ...routed, rows: 16 }] },
  expert_weights: { sizes: [{ ...routed, rows: 16 }] },
  // Besides 256 experts of few columns: fewer of as many as fill a tile. So below.
  moe_gate_up: {
    sizes: [
      { ...routed, ...ffnColumns(9), rows: 2, inDim: 2048 },
      { ...fewExperts, ...ffnColumns(40), rows: 3, inDim: 2048 },
    ],
    dtypes: [{ gate: FORMAT }],
  },
  moe_route_gate_up: {
    sizes: [
      { ...routed, ...norm, ...ffnColumns(9), rows: 2, inDim: 2048 },
      { ...fewExperts, ...norm, ...ffnColumns(40), rows: 3, inDim: 2048 },
    ],
    dtypes: [{ gate: FORMAT }],
  },
  moe_down: {
    sizes: [
      { ...routed, rows: 2, ffn: 512, dim: 33 },
      { ...fewExperts, rows: 3, ffn: 512, dim: 200 },
    ],
    dtypes: [{ down: FORMAT }],
  },
  moe_down_add: {
    sizes: [
      { ...routed, rows: 2, ffn: 512, dim: 33, gateCol: 256 },
      { ...fewExperts, rows: 3, ffn: 512, dim: 200, gateCol: 24 },
    ],
    dtypes: [{ down: FORMAT }],
  },
  moe_sort: { sizes: [{ rows: 512, topK: 8, pairs: 4096, expertsPlus1: 257 }] },
  moe_gate_up_gemm: {
    sizes: [
      { ...runs, ...ffnColumns(9), inDim: 2048 },
      { ...runs, ...ffnColumns(40), inDim: 2048, ...fewExperts, expertsPlus1: 25 },
    ],
    dtypes: [{ gate: FORMAT }],
  },
  moe_down_gemm: {
    sizes: [
      { ...runs, ffn: 512, dim: 33 },
      { ...runs, ...fewExperts, expertsPlus1: 25, ffn: 512, dim: 200 },
    ],
    dtypes: [{ down: FORMAT }],
  },
  moe_combine: { sizes: hidden("dim", { rows: 3, topK: 8 }) },
  moe_shared_add: { sizes: hidden("dim", { ...routed, rows: 3, gateCol: 256 }) },

  argmax: { sizes: [{ ...step, rows: 2, vocab: VOCAB }] },
  // ctx names the settings of op.ts: top-k 20 with top-p 0.95, and all of the vocabulary.
  sample: {
    sizes: [34, 36].map((ctx) => ({ ...step, one: 1, two: 2, rows: 2, vocab: VOCAB, ctx })),
  },
  // Over the vocabulary, then over what its 64 parts gave.
  select_topk: {
    sizes: [
      { rows: 2, vocab: VOCAB, given: 0, parts: 64, topK: 16, odd: 0 },
      { rows: 2, vocab: 1024, given: 1024, parts: 1, topK: 16, odd: 0 },
    ],
  },
  token_nll: { sizes: [{ ...step, rows: 2, vocab: VOCAB, ctx: 10, first: 0 }] },
  draft_append: { sizes: [{ ...step, one: 1, ctx: 262144, index: 14 }] },
};

/** No axis of these is a model's; the parity test has all shapes that there are. */
const OF_NO_MODEL = ["spec_accept", "step_advance", "step_move", "step_place"]
  .concat(["stream_copy", "stream_read"]);

Deno.test("true shapes: no op with a .metal kernel is left out", () => {
  const named = [...Object.keys(SHAPES), ...OF_NO_MODEL].toSorted();
  const all = OPS.filter((op) => !("none" in op.simt)).map((op) => op.name).toSorted();
  assert.deepEqual(named, all);
});

for (const [name, { sizes, dtypes = [{}] }] of Object.entries(SHAPES)) {
  Deno.test(`true shapes: ${name}`, () => {
    const op = OPS.find((o) => o.name === name)!;
    const lines = dtypes.flatMap((variant) =>
      sizes.flatMap((s) => {
        const c = opCase(op, variant, s);
        if (!c) throw new Error(`${name} refuses ${JSON.stringify(s)}`);
        const prepared = prepareCase(c);
        return [LEVELS[0], ...KERNEL_DEVICES].flatMap((level) => failuresOf(prepared, level));
      })
    );
    if (lines.length) throw new Error(lines.slice(0, 20).join("\n"));
  });
}
