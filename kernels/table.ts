/** Every op, in id order. A new op goes to the end: ids are part of a tape's hash. */
import type { Op } from "./define.ts";
import { addRmsNorm } from "./ops/add_rms_norm/op.ts";
import { argmax } from "./ops/argmax/op.ts";
import { attnDecode } from "./ops/attn_decode/op.ts";
import { attnGate } from "./ops/attn_gate/op.ts";
import { attnMerge } from "./ops/attn_merge/op.ts";
import { attnPrefill } from "./ops/attn_prefill/op.ts";
import { attnSplit } from "./ops/attn_split/op.ts";
import { convSilu } from "./ops/conv_silu/op.ts";
import { embed } from "./ops/embed/op.ts";
import { gatedRmsNorm } from "./ops/gated_rms_norm/op.ts";
import { gdnChunk } from "./ops/gdn_chunk/op.ts";
import { gdnGates } from "./ops/gdn_gates/op.ts";
import { gdnQkNorm } from "./ops/gdn_qk_norm/op.ts";
import { gdnStep } from "./ops/gdn_step/op.ts";
import { gemm } from "./ops/gemm/op.ts";
import { gemmAct8 } from "./ops/gemm_act8/op.ts";
import { gemv } from "./ops/gemv/op.ts";
import { gemvAct8 } from "./ops/gemv_act8/op.ts";
import { moeCombine } from "./ops/moe_combine/op.ts";
import { moeDown } from "./ops/moe_down/op.ts";
import { moeDownAct8 } from "./ops/moe_down_act8/op.ts";
import { moeDownGemm } from "./ops/moe_down_gemm/op.ts";
import { moeDownGemmAct8 } from "./ops/moe_down_gemm_act8/op.ts";
import { moeGateUp } from "./ops/moe_gate_up/op.ts";
import { moeGateUpAct8 } from "./ops/moe_gate_up_act8/op.ts";
import { moeGateUpGemm } from "./ops/moe_gate_up_gemm/op.ts";
import { moeGateUpGemmAct8 } from "./ops/moe_gate_up_gemm_act8/op.ts";
import { moeSharedAdd } from "./ops/moe_shared_add/op.ts";
import { moeSort } from "./ops/moe_sort/op.ts";
import { qkNormRopeAppend } from "./ops/qk_norm_rope_append/op.ts";
import { quantAct8 } from "./ops/quant_act8/op.ts";
import { quantizeAffine } from "./ops/quantize_affine/op.ts";
import { rmsNorm } from "./ops/rms_norm/op.ts";
import { routerTopk } from "./ops/router_topk/op.ts";
import { sample } from "./ops/sample/op.ts";
import { stepAdvance } from "./ops/step_advance/op.ts";
import { stepMove } from "./ops/step_move/op.ts";
import { swiglu } from "./ops/swiglu/op.ts";
import { tokenNll } from "./ops/token_nll/op.ts";
import { streamRead } from "./ops/stream_read/op.ts";
import { streamCopy } from "./ops/stream_copy/op.ts";
import { randomAffine } from "./ops/random_affine/op.ts";
import { expertWeights } from "./ops/expert_weights/op.ts";
import { convVerify } from "./ops/conv_verify/op.ts";
import { draftAppend } from "./ops/draft_append/op.ts";
import { gdnCommit } from "./ops/gdn_commit/op.ts";
import { gdnVerify } from "./ops/gdn_verify/op.ts";
import { normPair } from "./ops/norm_pair/op.ts";
import { selectRow } from "./ops/select_row/op.ts";
import { specAccept } from "./ops/spec_accept/op.ts";
import { stepPlace } from "./ops/step_place/op.ts";
import { attnTree } from "./ops/attn_tree/op.ts";
import { normGemv } from "./ops/norm_gemv/op.ts";
import { selectTopk } from "./ops/select_topk/op.ts";
import { attnMergeGate } from "./ops/attn_merge_gate/op.ts";
import { gemvAdd } from "./ops/gemv_add/op.ts";
import { moeRouteGateUp } from "./ops/moe_route_gate_up/op.ts";
import { moeDownAdd } from "./ops/moe_down_add/op.ts";
import { gdnDecode } from "./ops/gdn_decode/op.ts";
import { attnDecodeGate } from "./ops/attn_decode_gate/op.ts";

export const OPS: readonly Op[] = [
  rmsNorm as unknown as Op,
  qkNormRopeAppend as unknown as Op,
  attnDecode as unknown as Op,
  attnSplit as unknown as Op,
  attnMerge as unknown as Op,
  attnPrefill as unknown as Op,
  attnGate as unknown as Op,
  gemm as unknown as Op,
  gemmAct8 as unknown as Op,
  moeSort as unknown as Op,
  moeGateUpGemm as unknown as Op,
  moeGateUpGemmAct8 as unknown as Op,
  moeDownGemm as unknown as Op,
  moeDownGemmAct8 as unknown as Op,
  moeCombine as unknown as Op,
  moeSharedAdd as unknown as Op,
  swiglu as unknown as Op,
  embed as unknown as Op,
  gemv as unknown as Op,
  quantAct8 as unknown as Op,
  gemvAct8 as unknown as Op,
  moeGateUp as unknown as Op,
  moeDown as unknown as Op,
  moeGateUpAct8 as unknown as Op,
  moeDownAct8 as unknown as Op,
  quantizeAffine as unknown as Op,
  addRmsNorm as unknown as Op,
  convSilu as unknown as Op,
  gdnGates as unknown as Op,
  gdnQkNorm as unknown as Op,
  gdnStep as unknown as Op,
  gdnChunk as unknown as Op,
  gatedRmsNorm as unknown as Op,
  routerTopk as unknown as Op,
  argmax as unknown as Op,
  sample as unknown as Op,
  stepAdvance as unknown as Op,
  stepMove as unknown as Op,
  tokenNll as unknown as Op,
  streamRead as unknown as Op,
  streamCopy as unknown as Op,
  randomAffine as unknown as Op,
  expertWeights as unknown as Op,
  convVerify as unknown as Op,
  draftAppend as unknown as Op,
  gdnCommit as unknown as Op,
  gdnVerify as unknown as Op,
  normPair as unknown as Op,
  selectRow as unknown as Op,
  specAccept as unknown as Op,
  stepPlace as unknown as Op,
  attnTree as unknown as Op,
  normGemv as unknown as Op,
  selectTopk as unknown as Op,
  attnMergeGate as unknown as Op,
  gemvAdd as unknown as Op,
  moeRouteGateUp as unknown as Op,
  moeDownAdd as unknown as Op,
  gdnDecode as unknown as Op,
  attnDecodeGate as unknown as Op,
];
