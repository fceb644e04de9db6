/**
 * The layers of Qwen3.5 / Qwen3.6 as records: attention, Gated DeltaNet and the feed-forward block, each in
 * the order of its formula. Owns neither their order in the model nor the norms between them.
 */
import type { Tensor } from "../define.ts";
import { attnDecode } from "../ops/attn_decode/op.ts";
import { attnDecodeGate } from "../ops/attn_decode_gate/op.ts";
import { attnGate } from "../ops/attn_gate/op.ts";
import { attnMerge } from "../ops/attn_merge/op.ts";
import { attnMergeGate } from "../ops/attn_merge_gate/op.ts";
import { attnPrefill } from "../ops/attn_prefill/op.ts";
import { attnSplit } from "../ops/attn_split/op.ts";
import { convSilu } from "../ops/conv_silu/op.ts";
import { convVerify } from "../ops/conv_verify/op.ts";
import { gatedRmsNorm } from "../ops/gated_rms_norm/op.ts";
import { gdnChunk } from "../ops/gdn_chunk/op.ts";
import { gdnDecode } from "../ops/gdn_decode/op.ts";
import { gdnGates } from "../ops/gdn_gates/op.ts";
import { gdnQkNorm } from "../ops/gdn_qk_norm/op.ts";
import { gdnStep } from "../ops/gdn_step/op.ts";
import { gdnVerify } from "../ops/gdn_verify/op.ts";
import { qkNormRopeAppend } from "../ops/qk_norm_rope_append/op.ts";
import { ATTN_BLOCK } from "../step.ts";
import {
  Activations,
  type Forward,
  project,
  projectInto,
  recordSwiglu,
  ROWS_MAX,
  type Stream,
} from "./forward.ts";
import { recordMoe } from "./qwen35_moe.ts";
import type { Recurrent } from "./qwen35_recurrent.ts";

/** Gated attention of the layer that `block` names, over the keys and values in states `cache`.k and .v. */
export function recordAttention(
  f: Forward,
  block: string,
  cache: string,
  a: Activations,
  stream: Stream,
): void {
  const { c, s, tape } = f;
  const p = `${block}.attn.`;
  const sizes = [c.kvHeads, s.ctx, c.headDim];
  const kCache = tape.state(`${cache}.k`, s.kv, sizes);
  const vCache = tape.state(`${cache}.v`, s.kv, sizes);
  const q = f.scratch("q", [s.rows, c.qHeads, c.headDim]);
  const o = f.scratch("o", [s.rows, c.qHeads, c.headDim]);
  const qkv = project(a, [p + "q", p + "k", p + "v"]);
  tape.emit(qkNormRopeAppend, {
    qkv,
    qNorm: f.weight(p + "qNorm"),
    kNorm: f.weight(p + "kNorm"),
    invFreq: tape.weight("invFreq", "f32", [c.rotaryDim / 2]),
    step: f.step,
    q,
    kCache,
    vCache,
  }, { eps: c.normEps });
  attend(f, { q, kCache, vCache, step: f.step, o }, qkv);
  const flat = tape.view(o, 0, [s.rows, c.qHeads * c.headDim]);
  stream.addProduct(new Activations(f, flat), p + "o");
}

/** o = the values that q finds among the keys, times the gate of qkv. */
function attend(
  f: Forward,
  t: { q: Tensor; kCache: Tensor; vCache: Tensor; step: Tensor; o: Tensor },
  qkv: Tensor,
): void {
  const { c, s, tape } = f, { o, step, ...keys } = t, scale = c.headDim ** -0.5;
  if (s.rows <= ROWS_MAX && s.keys > ATTN_BLOCK) {
    const blocks = Math.ceil(s.keys / ATTN_BLOCK);
    const partial = f.scratch("partial", [s.rows, c.qHeads, blocks, c.headDim]);
    const stats = f.scratch("stats", [s.rows, c.qHeads, blocks, 2]);
    tape.emit(attnSplit, { ...keys, step, partial, stats }, { scale });
    if (f.fused) return tape.emit(attnMergeGate, { partial, stats, step, qkv, o }, {});
    tape.emit(attnMerge, { partial, stats, step, o }, {});
  } else {
    if (f.fused) return tape.emit(attnDecodeGate, { ...t, qkv }, { scale });
    tape.emit(s.rows > ROWS_MAX ? attnPrefill : attnDecode, t, { scale });
  }
  tape.emit(attnGate, { o, qkv }, {});
}

/** The recurrent layer. In a round its states stay as they are until `recurrent` commits. */
export function recordGdn(
  f: Forward,
  layer: number,
  a: Activations,
  stream: Stream,
  recurrent: Recurrent,
): void {
  const { c, s, tape } = f;
  const p = `layers.${layer}.gdn.`, d = c.gdnHeadDim;
  const channels = (2 * c.kHeads + c.vHeads) * d;
  const round = s.output === "round";
  const rowsOf = (name: string, ...shape: number[]) =>
    recurrent.rows(name, layer, [s.rows, ...shape]);
  const zCol = channels, bCol = zCol + c.vHeads * d, aCol = bCol + c.vHeads;
  const proj = rowsOf("proj", aCol + c.vHeads);
  projectInto(a, [p + "qkv", p + "z", p + "b", p + "a"], proj);
  const convState = recurrent.state("conv", layer, [c.convTaps - 1, channels]);
  const gdnState = recurrent.state("gdn", layer, [c.vHeads, d, d]);
  const convolved = { proj, w: f.weight(p + "conv"), convState };
  const gated = { proj, negA: f.weight(p + "negA"), dtBias: f.weight(p + "dtBias") };
  const wNorm = f.weight(p + "norm"), y = f.scratch("gated", [s.rows, c.vHeads, d]);
  const { headMap, kHeads, normEps: eps } = c, qkEps = 1e-6;
  if (f.fused && !round) {
    const params = { kHeads, headMap, bCol, aCol, zCol, eps, qkEps };
    tape.emit(gdnDecode, { ...convolved, ...gated, gdnState, wNorm, y }, params);
  } else {
    const conv = f.scratch("conv", [s.rows, channels]), qk = rowsOf("qk", 2, kHeads, d);
    const beta = f.scratch("beta", [s.rows, c.vHeads]), g = rowsOf("g", c.vHeads);
    if (round) tape.emit(convVerify, { ...convolved, y: conv }, {});
    else tape.emit(convSilu, { ...convolved, y: conv }, {});
    tape.emit(gdnGates, { ...gated, beta, g }, { bCol, aCol });
    tape.emit(gdnQkNorm, { conv, qk }, { eps: qkEps });
    const rows = { qk, conv, g, beta, gdnState, o: f.scratch("o", [s.rows, c.vHeads, d]) };
    if (round) tape.emit(gdnVerify, { ...rows, d: rowsOf("d", c.vHeads, d) }, { headMap });
    else tape.emit(s.rows > ROWS_MAX ? gdnChunk : gdnStep, rows, { headMap });
    tape.emit(gatedRmsNorm, { o: rows.o, proj, w: wNorm, y }, { zCol, eps });
  }
  const flat = tape.view(y, 0, [s.rows, c.vHeads * d]);
  stream.addProduct(new Activations(f, flat), p + "out");
}

/** The dense or mixture-of-experts block of the layer that `block` names. */
export function recordFfn(f: Forward, block: string, a: Activations, stream: Stream): void {
  if (f.c.moe) return recordMoe(f, block, a, stream);
  const p = `${block}.mlp.`;
  stream.addProduct(recordSwiglu(a, p + "gate", p + "up", f.c.ffn), p + "down");
}
