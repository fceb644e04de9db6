/**
 * Kernels at the shapes of the real models, where published engines went wrong: head dimensions 256 and 512 with
 * their head counts, hidden sizes 2048, 2816 and 5120, 256 experts, convolutions of 8192 and 10240 channels.
 */
import { STEP_WORDS } from "../../kernels/step.ts";
import { ATTN_BLOCK } from "../../kernels/step.ts";
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
const GDN = [
  { kHeads: 16, vHeads: 32, headDim: 128, channels: 8192 },
  { kHeads: 16, vHeads: 48, headDim: 128, channels: 10240 },
];
const FORMAT = "q4g64_bf16";
const step = { stepWords: STEP_WORDS };
const four = { out1: 0, out2: 0, out3: 0, yCol: 0 };

const norms = HIDDEN.map((dim) => ({ rows: 2, dim, eps: 1e-6 }));
const attention = HEADS.map((h) => ({ ...h, ...step, scale: h.headDim ** -0.5 }));
const split = { blocks: 3, ctx: 3 * ATTN_BLOCK, pos: 600, stat: 2 };
const experts = { topK: 8, experts: 256 };

const SHAPES: Readonly<Record<string, { sizes: readonly Sizes[]; dtypes?: Dtypes }>> = {
  rms_norm: { sizes: norms },
  add_rms_norm: { sizes: norms },
  norm_pair: { sizes: norms.map((s) => ({ ...s, twoDim: 2 * s.dim })) },
  qk_norm_rope_append: {
    sizes: attention.map((s) => ({
      ...s,
      rows: 2,
      rotHalf: 32,
      ctx: 40,
      pos: 30,
      qkvWidth: 2 * (s.qHeads + s.kvHeads) * s.headDim,
      eps: 1e-6,
    })),
    dtypes: { kCache: "f16" },
  },
  attn_decode: {
    sizes: attention.map((s) => ({ ...s, rows: 2, ctx: 600, pos: 520 })),
    dtypes: { kCache: "f16" },
  },
  attn_split: {
    sizes: attention.map((s) => ({ ...s, ...split, rows: 2 })),
    dtypes: { kCache: "f16" },
  },
  attn_merge: { sizes: attention.map((s) => ({ ...s, ...split, rows: 2 })) },
  attn_prefill: {
    sizes: attention.map((s) => ({ ...s, rows: 40, ctx: 100, pos: 50 })),
    dtypes: { kCache: "f16" },
  },
  attn_merge_gate: {
    sizes: attention.map((s) => ({
      ...s,
      ...split,
      rows: 2,
      qkvWidth: 2 * (s.qHeads + s.kvHeads) * s.headDim,
    })),
  },
  attn_gate: {
    sizes: attention.map((s) => ({
      ...s,
      rows: 2,
      qkvWidth: 2 * (s.qHeads + s.kvHeads) * s.headDim,
    })),
  },
  gemv: {
    sizes: [
      ...HIDDEN.map((inDim) => ({ ...four, rows: 3, inDim, out0: 100, yStride: 100 })),
      { rows: 1, inDim: 2048, out0: 8192, out1: 4096, out2: 32, out3: 32, yStride: 12352, yCol: 0 },
    ],
    dtypes: { w0: FORMAT },
  },
  gemm: {
    sizes: HIDDEN.map((inDim) => ({ ...four, rows: 33, inDim, out0: 100, yStride: 100 })),
    dtypes: { w0: FORMAT },
  },
  router_topk: { sizes: [{ rows: 16, logitStride: 257, ...experts }] },
  moe_gate_up: {
    sizes: [{
      ...experts,
      rows: 2,
      inDim: 2048,
      gateRows: 64,
      upRows: 64,
      ffn: 32,
      gateRow: 0,
      upRow: 32,
    }],
    dtypes: { gate: FORMAT },
  },
  gemv_add: {
    sizes: [{ rows: 2, inDim: 4096, out: 100 }, { rows: 3, inDim: 17408, out: 60 }],
    dtypes: { w: FORMAT },
  },
  moe_route_gate_up: {
    sizes: [{
      ...experts,
      rows: 2,
      inDim: 2048,
      slots: 9,
      logitStride: 257,
      gateRows: 64,
      upRows: 64,
      ffn: 32,
      gateRow: 0,
      upRow: 32,
      eps: 1e-6,
    }],
    dtypes: { gate: FORMAT },
  },
  moe_down_add: {
    sizes: [{ ...experts, rows: 2, slots: 9, logitStride: 257, ffn: 512, dim: 64, gateCol: 256 }],
    dtypes: { down: FORMAT },
  },
  moe_down: { sizes: [{ ...experts, rows: 2, ffn: 512, dim: 64 }], dtypes: { down: FORMAT } },
  conv_silu: {
    sizes: GDN.map(({ channels }) => ({
      rows: 5,
      channels,
      projStride: channels + 4160,
      taps: 4,
      past: 3,
    })),
  },
  gdn_prepare: {
    sizes: GDN.map((s) => ({
      ...s,
      rows: 2,
      two: 2,
      taps: 4,
      past: 3,
      projStride: 16480,
      bCol: 16384,
      aCol: 16432,
      eps: 1e-6,
    })),
  },
  gdn_step_norm: {
    sizes: GDN.map((s) => ({
      ...s,
      rows: 2,
      two: 2,
      headMap: 0,
      projStride: 16480,
      zCol: 10240,
      eps: 1e-6,
    })),
  },
  gdn_step: { sizes: GDN.map((s) => ({ ...s, rows: 2, two: 2, headMap: 0 })) },
  gdn_chunk: { sizes: GDN.map((s) => ({ ...s, rows: 40, two: 2, headMap: 0 })) },
  gated_rms_norm: {
    sizes: GDN.map((s) => ({ ...s, rows: 2, projStride: 16480, zCol: 8192, eps: 1e-6 })),
  },
};

for (const [name, { sizes, dtypes = {} }] of Object.entries(SHAPES)) {
  Deno.test(`true shapes: ${name}`, () => {
    const op = OPS.find((o) => o.name === name)!;
    const lines = sizes.flatMap((s) => {
      const c = opCase(op, dtypes, s);
      if (!c) throw new Error(`${name} refuses ${JSON.stringify(s)}`);
      const prepared = prepareCase(c);
      return [LEVELS[0], ...KERNEL_DEVICES].flatMap((level) => failuresOf(prepared, level));
    });
    if (lines.length) throw new Error(lines.slice(0, 20).join("\n"));
  });
}
