import { defineOp, type Sizes, type Traffic } from "../../define.ts";
import { fillStep, KV_DTYPES } from "../../shared/attention.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

/** Cache rows that the rows of a play append, as elements. */
function appended(s: Sizes, at: Traffic): number {
  return s.kvHeads * s.headDim * Math.max(0, Math.min(s.rows, s.ctx - at.pos));
}

export const qkNormRopeAppend = defineOp({
  name: "qk_norm_rope_append",
  doc:
    "q[r,h] = rope(rms(query) * qNorm), kCache[g,p] = rope(rms(key) * kNorm), vCache[g,p] = value, " +
    "p = pos+r, of the row qkv[r] = (query | gate per head, keys, values)",
  tensors: {
    qkv: { axes: ["rows", "qkvWidth"], dtypes: ["f32"], role: "in" },
    qNorm: { axes: ["headDim"], dtypes: ["f32"], role: "in" },
    kNorm: { axes: ["headDim"], dtypes: ["f32"], role: "in" },
    invFreq: { axes: ["rotHalf"], dtypes: ["f32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    q: { axes: ["rows", "qHeads", "headDim"], dtypes: ["f32"], role: "out" },
    kCache: { axes: ["kvHeads", "ctx", "headDim"], dtypes: KV_DTYPES, role: "inout" },
    vCache: {
      axes: ["kvHeads", "ctx", "headDim"],
      dtypes: KV_DTYPES,
      role: "inout",
      sameAs: "kCache",
    },
  },
  params: { eps: "f32" },
  constraints: [
    { axis: "headDim", multipleOf: 32 },
    { axis: "headDim", max: 512 },
    { sum: ["rotHalf", "rotHalf"], atMost: "headDim" },
    { sum: [[2, "qHeads", "headDim"], [2, "kvHeads", "headDim"]], atMost: "qkvWidth" },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => s.rows,
  simt: {
    threads: 128,
    groups: (s) => [s.rows, Math.ceil((s.qHeads + 2 * s.kvHeads) / 4), 1],
  },
  reference: ({ qkv, qNorm, kNorm, invFreq, step, q, kCache, vCache }, { eps }, s) => {
    const { headDim, qHeads, kvHeads, rotHalf } = s;
    const normRope = (
      from: number,
      weight: Float64Array,
      pos: number,
      to: Float64Array,
      at: number,
    ) => {
      let sum = 0;
      for (let d = 0; d < headDim; d++) sum += qkv[from + d] ** 2;
      const scale = 1 / Math.sqrt(sum / headDim + eps);
      const x = Array.from({ length: headDim }, (_, d) => qkv[from + d] * scale * weight[d]);
      for (let d = 0; d < headDim; d++) to[at + d] = x[d];
      for (let j = 0; j < rotHalf; j++) {
        const angle = Math.fround(Math.fround(pos) * invFreq[j]);
        to[at + j] = x[j] * Math.cos(angle) - x[j + rotHalf] * Math.sin(angle);
        to[at + j + rotHalf] = x[j + rotHalf] * Math.cos(angle) + x[j] * Math.sin(angle);
      }
    };
    for (let r = 0; r < s.rows; r++) {
      const pos = step[STEP.pos] + r;
      const row = r * s.qkvWidth;
      for (let h = 0; h < qHeads; h++) {
        normRope(row + 2 * h * headDim, qNorm, pos, q, (r * qHeads + h) * headDim);
      }
      if (pos >= s.ctx) continue;
      for (let g = 0; g < kvHeads; g++) {
        const keyAt = row + (2 * qHeads + g) * headDim;
        const cacheAt = (g * s.ctx + pos) * headDim;
        normRope(keyAt, kNorm, pos, kCache, cacheAt);
        for (let d = 0; d < headDim; d++) vCache[cacheAt + d] = qkv[keyAt + kvHeads * headDim + d];
      }
    }
  },
  // 16-bit caches may differ in the last place, q8 by one step of a group's scale.
  tolerance: {
    f32: { rel: 1e-6, ofRms: 5e-7 },
    f16: { rel: 1e-3, ofRms: 1e-6 },
    bf16: { rel: 8e-3, ofRms: 1e-6 },
    q8: { rel: 0, ofRms: 0.04 },
  },
  cases: [
    { rows: 1, qHeads: 1, kvHeads: 1, headDim: 32, rotHalf: 1, ctx: 1, pos: 0, pad: 0 },
    { rows: 3, qHeads: 4, kvHeads: 2, headDim: 64, rotHalf: 9, ctx: 12, pos: 8, pad: 5 },
    { rows: 16, qHeads: 2, kvHeads: 1, headDim: 128, rotHalf: 16, ctx: 40, pos: 30, pad: 0 },
    { rows: 2, qHeads: 16, kvHeads: 2, headDim: 256, rotHalf: 32, ctx: 600, pos: 511, pad: 0 },
    { rows: 1, qHeads: 2, kvHeads: 1, headDim: 512, rotHalf: 256, ctx: 3, pos: 2, pad: 0 },
    { rows: 2, qHeads: 2, kvHeads: 1, headDim: 64, rotHalf: 32, ctx: 32768, pos: 32766, pad: 0 },
    { rows: 2, qHeads: 2, kvHeads: 1, headDim: 256, rotHalf: 32, ctx: 9, pos: 262142, pad: 0 },
    { rows: 2, qHeads: 1, kvHeads: 1, headDim: 64, rotHalf: 16, ctx: 9, pos: 0xffffffff, pad: 0 },
  ].map((s) => ({
    ...s,
    qkvWidth: 2 * s.headDim * (s.qHeads + s.kvHeads) + s.pad,
    stepWords: STEP_WORDS,
    eps: 1e-6,
  })),
  fill: {
    step: fillStep,
    invFreq: (s) => Float32Array.from({ length: s.rotHalf }, (_, j) => 1e7 ** (-j / s.rotHalf)),
    qNorm: (s, random) => Float32Array.from({ length: s.headDim }, () => 1 + random() / 4),
    kNorm: (s, random) => Float32Array.from({ length: s.headDim }, () => 1 + random() / 4),
  },
  flops: (s) => s.rows * (s.qHeads + s.kvHeads) * (4 * s.headDim + 6 * s.rotHalf),
  touched: {
    qkv: (s) => s.rows * s.headDim * (s.qHeads + 2 * s.kvHeads),
    step: () => 1,
    kCache: appended,
    vCache: appended,
  },
});
