/**
 * The layers of Qwen3.5 / Qwen3.6 as records: attention, Gated DeltaNet and the feed-forward block, each in
 * the order of its formula. Owns neither their order in the model nor the norms between them.
 */
import type { Tensor } from "../define.ts";
import { attnDecode } from "../ops/attn_decode/op.ts";
import { attnGate } from "../ops/attn_gate/op.ts";
import { attnMerge } from "../ops/attn_merge/op.ts";
import { attnPrefill } from "../ops/attn_prefill/op.ts";
import { attnSplit } from "../ops/attn_split/op.ts";
import { convCommit } from "../ops/conv_commit/op.ts";
import { convSilu } from "../ops/conv_silu/op.ts";
import { convVerify } from "../ops/conv_verify/op.ts";
import { gatedRmsNorm } from "../ops/gated_rms_norm/op.ts";
import { gdnChunk } from "../ops/gdn_chunk/op.ts";
import { gdnCommit } from "../ops/gdn_commit/op.ts";
import { gdnGates } from "../ops/gdn_gates/op.ts";
import { gdnQkNorm } from "../ops/gdn_qk_norm/op.ts";
import { gdnStep } from "../ops/gdn_step/op.ts";
import { gdnVerify } from "../ops/gdn_verify/op.ts";
import { qkNormRopeAppend } from "../ops/qk_norm_rope_append/op.ts";
import { ATTN_BLOCK } from "../step.ts";
import { Activations, type Forward, project, recordSwigluMlp, ROWS_MAX } from "./forward.ts";
import { recordMoe } from "./qwen35_moe.ts";

/** Gated attention of the layer that `block` names, over the keys and values in states `cache`.k and .v. */
export function recordAttention(f: Forward, block: string, cache: string, a: Activations): Tensor {
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
  const scale = c.headDim ** -0.5, step = f.step;
  if (s.rows > ROWS_MAX) tape.emit(attnPrefill, { q, kCache, vCache, step, o }, { scale });
  else if (s.keys <= ATTN_BLOCK) tape.emit(attnDecode, { q, kCache, vCache, step, o }, { scale });
  else {
    const blocks = Math.ceil(s.keys / ATTN_BLOCK);
    const partial = f.scratch("partial", [s.rows, c.qHeads, blocks, c.headDim]);
    const stats = f.scratch("stats", [s.rows, c.qHeads, blocks, 2]);
    tape.emit(attnSplit, { q, kCache, vCache, step, partial, stats }, { scale });
    tape.emit(attnMerge, { partial, stats, step, o }, {});
  }
  tape.emit(attnGate, { o, qkv }, {});
  const flat = tape.view(o, 0, [s.rows, c.qHeads * c.headDim]);
  return project(new Activations(f, flat), [p + "o"]);
}

/**
 * The recurrent layer. In a round its states stay as they are, and what `commits` then holds more of records
 * how they take up the rows that were kept.
 */
export function recordGdn(
  f: Forward,
  layer: number,
  a: Activations,
  commits: (() => void)[],
): Tensor {
  const { c, s, tape } = f;
  const p = `layers.${layer}.gdn.`, d = c.gdnHeadDim;
  const channels = (2 * c.kHeads + c.vHeads) * d;
  const proj = project(a, [p + "qkv", p + "z", p + "b", p + "a"]);
  const conv = f.scratch("conv", [s.rows, channels]);
  const convState = tape.state(`conv.${layer}`, "f32", [c.convTaps - 1, channels]);
  const round = s.output === "round";
  const convolved = { proj, w: f.weight(p + "conv"), convState, y: conv };
  if (round) tape.emit(convVerify, convolved, {});
  else tape.emit(convSilu, convolved, {});
  const beta = f.scratch("beta", [s.rows, c.vHeads]), g = f.scratch("g", [s.rows, c.vHeads]);
  const bCol = channels + c.vHeads * d, aCol = bCol + c.vHeads;
  tape.emit(
    gdnGates,
    { proj, negA: f.weight(p + "negA"), dtBias: f.weight(p + "dtBias"), beta, g },
    { bCol, aCol },
  );
  const qk = f.scratch("qk", [s.rows, 2, c.kHeads, d]);
  tape.emit(gdnQkNorm, { conv, qk }, { eps: 1e-6 });
  const o = f.scratch("o", [s.rows, c.vHeads, d]);
  const gdnState = tape.state(`gdn.${layer}`, "f32", [c.vHeads, d, d]);
  const rows = { qk, conv, g, beta, gdnState }, { headMap } = c;
  if (round) {
    tape.emit(gdnVerify, { ...rows, o }, { headMap });
    commits.push(() => {
      tape.emit(gdnCommit, { ...rows, step: f.step }, { headMap });
      tape.emit(convCommit, { proj, step: f.step, convState }, {});
    });
  } else tape.emit(s.rows > ROWS_MAX ? gdnChunk : gdnStep, { ...rows, o }, { headMap });
  const y = f.scratch("gated", [s.rows, c.vHeads, d]);
  tape.emit(
    gatedRmsNorm,
    { o, proj, w: f.weight(p + "norm"), y },
    { zCol: channels, eps: c.normEps },
  );
  const flat = tape.view(y, 0, [s.rows, c.vHeads * d]);
  return project(new Activations(f, flat), [p + "out"]);
}

/** The dense or mixture-of-experts block of the layer that `block` names. */
export function recordFfn(f: Forward, block: string, a: Activations): Tensor {
  if (f.c.moe) return recordMoe(f, block, a);
  const p = `${block}.mlp.`;
  return recordSwigluMlp(f, a, p + "gate", p + "up", p + "down", f.c.ffn);
}
