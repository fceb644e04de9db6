import { defineOp } from "../../define.ts";
import { attnDecode } from "../attn_decode/op.ts";
import { attnGate } from "../attn_gate/op.ts";

const { o, ...read } = attnDecode.tensors;

export const attnDecodeGate = defineOp({
  name: "attn_decode_gate",
  doc:
    "attn_decode and attn_gate, bit by bit: o[r,h,d] = (o of attn_decode) * sigmoid(qkv[r, h * 2 * headDim + headDim + d])",
  tensors: { ...read, qkv: attnGate.tensors.qkv, o },
  params: attnDecode.params,
  specialise: attnDecode.specialise,
  constraints: [...attnDecode.constraints, ...attnGate.constraints],
  tasks: attnDecode.tasks,
  simt: attnDecode.simt,
  reference: (t, p, s) => {
    attnDecode.reference(t, p, s);
    attnGate.reference(t, p, s);
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 4e-6 } },
  cases: attnDecode.cases.map((s) => ({ ...s, qkvWidth: 2 * s.qHeads * s.headDim + 4 * s.rows })),
  fill: attnDecode.fill,
  flops: (s, at) => attnDecode.flops(s, at) + attnGate.flops(s, at),
  touched: { ...attnDecode.touched, qkv: (s) => s.rows * s.qHeads * s.headDim },
});
