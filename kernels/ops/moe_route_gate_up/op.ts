import { defineOp, type TensorSpec } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import { ROWS_PER_TASK } from "../../shared/concatenation.ts";
import {
  EXPERT_ROWS_FIT,
  expertsRead,
  gateUp,
  joinShared,
  SLOTS_HOLD_SHARED,
} from "../../shared/experts.ts";
import { normRow } from "../../shared/norm.ts";
import { chooseExperts, exampleLogits } from "../../shared/router.ts";

function weight(...axes: string[]) {
  return { axes, dtypes: WEIGHT_FORMATS, role: "in", weight: true } satisfies TensorSpec;
}

export const moeRouteGateUp = defineOp({
  name: "moe_route_gate_up",
  doc:
    "ids, weights = router_topk of logits[r, 0:experts]; n = rms_norm of x; h[r,k,j] = silu(gate[e, gateRow + j] . n[r]) * " +
    "(up[e, upRow + j] . n[r]), e = ids[r,k]; h[r,topK,j] with sharedGate and sharedUp; rows <= 16",
  tensors: {
    x: { axes: ["rows", "inDim"], dtypes: ["f32"], role: "in" },
    wNorm: { axes: ["inDim"], dtypes: ["f32"], role: "in" },
    logits: { axes: ["rows", "logitStride"], dtypes: ["f32"], role: "in" },
    gate: weight("experts", "gateRows", "inDim"),
    up: { ...weight("experts", "upRows", "inDim"), sameAs: "gate" },
    sharedGate: { ...weight("ffn", "inDim"), sameAs: "gate" },
    sharedUp: { ...weight("ffn", "inDim"), sameAs: "gate" },
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "out" },
    weights: { axes: ["rows", "topK"], dtypes: ["f32"], role: "out" },
    h: { axes: ["rows", "slots", "ffn"], dtypes: ["f32"], role: "out" },
  },
  params: { gateRow: "u32", upRow: "u32", eps: "f32" },
  constraints: [
    { axis: "rows", max: 16 },
    { axis: "inDim", multipleOf: "group" },
    { axis: "inDim", max: 32768 },
    { sum: ["experts"], atMost: "logitStride" },
    { sum: ["topK"], atMost: "experts" },
    { axis: "experts", max: 1024 },
    { axis: "topK", max: 32 },
    SLOTS_HOLD_SHARED,
    ...EXPERT_ROWS_FIT,
  ],
  tasks: (s) => s.rows * s.slots * Math.ceil(2 * s.ffn / ROWS_PER_TASK),
  // COLUMNS of kernels/shared/metal/dot.h, by pairs.
  simt: { threads: 64, groups: (s) => [Math.ceil(s.ffn / 4), s.rows * s.slots, 1] },
  reference: (t, { gateRow, upRow, eps }, s) => {
    chooseExperts(t, s.experts, s);
    const normed = t.x.slice();
    for (let at = 0; at < normed.length; at += s.inDim) {
      const row = normed.subarray(at, at + s.inDim);
      normRow(row, t.wNorm, row, eps);
    }
    const routed = new Float64Array(s.rows * s.topK * s.ffn);
    gateUp(normed, { ...t, h: routed }, { gateRow, upRow }, s);
    const shared = new Float64Array(s.rows * s.ffn);
    const first = new Uint32Array(s.rows);
    gateUp(
      normed,
      { ids: first, gate: t.sharedGate, up: t.sharedUp, h: shared },
      { gateRow: 0, upRow: 0 },
      { ...s, topK: 1, experts: 1, gateRows: s.ffn, upRows: s.ffn },
    );
    joinShared(t.h, routed, shared, s);
  },
  tolerance: { f32: { rel: 5e-6, ofRms: 1e-5 } },
  // deno-fmt-ignore
  cases: [
    { rows: 1, inDim: 16, topK: 1, experts: 1, gateRows: 1, upRows: 1, ffn: 1, gateRow: 0, upRow: 0 },
    { rows: 2, inDim: 77, topK: 2, experts: 3, gateRows: 5, upRows: 7, ffn: 5, gateRow: 0, upRow: 1 },
    { rows: 3, inDim: 192, topK: 8, experts: 9, gateRows: 70, upRows: 70, ffn: 35, gateRow: 0, upRow: 35 },
    { rows: 16, inDim: 128, topK: 2, experts: 5, gateRows: 33, upRows: 33, ffn: 33, gateRow: 0, upRow: 0 },
    { rows: 2, inDim: 64, topK: 7, experts: 66, gateRows: 3, upRows: 3, ffn: 3, gateRow: 0, upRow: 0 },
    { rows: 1, inDim: 2048, topK: 4, experts: 6, gateRows: 256, upRows: 256, ffn: 128, gateRow: 0, upRow: 128 },
  ].map((s) => ({ ...s, slots: s.topK + 1, logitStride: s.experts + s.rows - 1, eps: 1e-6 })),
  fill: { logits: exampleLogits },
  flops: (s) =>
    4 * s.rows * s.slots * s.ffn * s.inDim + s.rows * (4 * s.inDim + s.experts + 5 * s.topK),
  touched: {
    logits: (s) => s.rows * s.experts,
    gate: (s, at) => expertsRead(s, at) * s.ffn * s.inDim,
    up: (s, at) => expertsRead(s, at) * s.ffn * s.inDim,
  },
});
