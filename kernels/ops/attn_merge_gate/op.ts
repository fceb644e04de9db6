import { defineOp } from "../../define.ts";
import { attnGate } from "../attn_gate/op.ts";
import { attnMerge } from "../attn_merge/op.ts";

export const attnMergeGate = defineOp({
  name: "attn_merge_gate",
  doc:
    "attn_merge and attn_gate, bit by bit: o[r,h,d] = (o of attn_merge) * sigmoid(qkv[r, h * 2 * headDim + headDim + d])",
  tensors: {
    partial: attnMerge.tensors.partial,
    stats: attnMerge.tensors.stats,
    step: attnMerge.tensors.step,
    qkv: attnGate.tensors.qkv,
    o: attnMerge.tensors.o,
  },
  params: {},
  constraints: [...attnMerge.constraints, ...attnGate.constraints],
  tasks: attnMerge.tasks,
  simt: attnMerge.simt,
  reference: (t, p, s) => {
    attnMerge.reference(t, p, s);
    attnGate.reference(t, p, s);
  },
  tolerance: { f32: { rel: 1e-6, ofRms: 6e-7 } },
  cases: attnMerge.cases.map((s) => ({ ...s, qkvWidth: 2 * s.qHeads * s.headDim + 5 * s.rows })),
  fill: attnMerge.fill,
  flops: (s, at) => attnMerge.flops(s, at) + attnGate.flops(s, at),
  touched: { ...attnMerge.touched, qkv: (s) => s.rows * s.qHeads * s.headDim },
});
