import { defineOp } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import { ROWS_PER_TASK } from "../../shared/concatenation.ts";
import {
  downSum,
  exampleIds,
  expertsRead,
  SLOTS_HOLD_SHARED,
  splitShared,
} from "../../shared/experts.ts";

export const moeDownAdd = defineOp({
  name: "moe_down_add",
  doc: "x[r,d] += sum_k weights[r,k] * (down[e,d] . h[r,k]) + sigmoid(logits[r,gateCol]) * " +
    "(sharedDown[d] . h[r,topK]), e = ids[r,k], k < topK; rows <= 16",
  tensors: {
    h: { axes: ["rows", "slots", "ffn"], dtypes: ["f32"], role: "in" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "in" },
    logits: { axes: ["rows", "logitStride"], dtypes: ["f32"], role: "in" },
    down: { axes: ["experts", "dim", "ffn"], dtypes: WEIGHT_FORMATS, role: "in", weight: true },
    sharedDown: {
      axes: ["dim", "ffn"],
      dtypes: WEIGHT_FORMATS,
      role: "in",
      weight: true,
      sameAs: "down",
    },
    x: { axes: ["rows", "dim"], dtypes: ["f32"], role: "inout" },
  },
  params: { gateCol: "u32" },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "ffn", multipleOf: "group" },
    { axis: "ffn", max: 32768 },
    // The CPU kernel keeps two rows of sums in a thread's scratch.
    { axis: "dim", max: 32768 },
    { sum: ["gateCol", [1]], atMost: "logitStride" },
    SLOTS_HOLD_SHARED,
  ],
  tasks: (s) => Math.ceil(s.dim / ROWS_PER_TASK),
  // COLUMNS of kernels/shared/metal/dot.h, by rows.
  simt: { threads: 96, groups: (s) => [Math.ceil(s.dim / 4), s.rows, 1] },
  reference: (t, { gateCol }, s) => {
    const { routed, shared } = splitShared(t.h, s);
    const y = new Float64Array(t.x.length);
    downSum(routed, { ...t, y }, s);
    for (let i = 0; i < y.length; i++) t.x[i] += y[i];
    const gates = Float64Array.from(
      { length: s.rows },
      (_, r) => 1 / (1 + Math.exp(-t.logits[r * s.logitStride + gateCol])),
    );
    const first = new Uint32Array(s.rows);
    downSum(
      shared,
      { ids: first, weights: gates, down: t.sharedDown, y },
      { ...s, topK: 1, experts: 1 },
    );
    for (let i = 0; i < y.length; i++) t.x[i] += y[i];
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { rows: 1, topK: 1, ffn: 16, experts: 1, dim: 1 },
    { rows: 2, topK: 2, ffn: 77, experts: 3, dim: 5 },
    { rows: 3, topK: 8, ffn: 192, experts: 9, dim: 67 },
    { rows: 16, topK: 2, ffn: 128, experts: 5, dim: 33 },
    { rows: 1, topK: 8, ffn: 512, experts: 12, dim: 256 },
  ].map((s) => ({ ...s, slots: s.topK + 1, logitStride: s.experts + s.rows, gateCol: s.experts })),
  fill: { ids: exampleIds },
  flops: (s) => s.rows * s.dim * (2 * s.slots * (s.ffn + 1) + 1),
  touched: {
    logits: (s) => s.rows,
    down: (s, at) => expertsRead(s, at) * s.dim * s.ffn,
  },
});
