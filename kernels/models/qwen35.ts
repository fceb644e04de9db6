/**
 * Qwen3.5 / Qwen3.6 (dense and MoE) as records: the forward pass in the order of the formula. Owns which
 * ops stand for which line of the model and what a plan switches; knows no file, memory or device.
 */
import type { Recorder, Tensor } from "../define.ts";
import { addRmsNorm } from "../ops/add_rms_norm/op.ts";
import { attnDecode } from "../ops/attn_decode/op.ts";
import { attnGate } from "../ops/attn_gate/op.ts";
import { attnMerge } from "../ops/attn_merge/op.ts";
import { attnPrefill } from "../ops/attn_prefill/op.ts";
import { attnSplit } from "../ops/attn_split/op.ts";
import { convSilu } from "../ops/conv_silu/op.ts";
import { embed } from "../ops/embed/op.ts";
import { gatedRmsNorm } from "../ops/gated_rms_norm/op.ts";
import { gdnChunk } from "../ops/gdn_chunk/op.ts";
import { gdnGates } from "../ops/gdn_gates/op.ts";
import { gdnQkNorm } from "../ops/gdn_qk_norm/op.ts";
import { gdnStep } from "../ops/gdn_step/op.ts";
import { qkNormRopeAppend } from "../ops/qk_norm_rope_append/op.ts";
import { rmsNorm } from "../ops/rms_norm/op.ts";
import { sample } from "../ops/sample/op.ts";
import { stepAdvance } from "../ops/step_advance/op.ts";
import { stepMove } from "../ops/step_move/op.ts";
import { tokenNll } from "../ops/token_nll/op.ts";
import { ATTN_BLOCK } from "../step.ts";
import {
  Activations,
  Forward,
  type ForwardShape,
  project,
  projectInto,
  recordSwigluMlp,
  ROWS_MAX,
  type WeightForm,
} from "./forward.ts";
import type { ModelConfig } from "./qwen35_config.ts";
import { recordMoe } from "./qwen35_moe.ts";

function recordAttention(f: Forward, layer: number, a: Activations): Tensor {
  const { c, s, tape } = f;
  const p = `layers.${layer}.attn.`;
  const cache = [c.kvHeads, s.ctx, c.headDim];
  const kCache = tape.state(`kv.${layer}.k`, s.kv, cache);
  const vCache = tape.state(`kv.${layer}.v`, s.kv, cache);
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

function recordGdn(f: Forward, layer: number, a: Activations): Tensor {
  const { c, s, tape } = f;
  const p = `layers.${layer}.gdn.`, d = c.gdnHeadDim;
  const channels = (2 * c.kHeads + c.vHeads) * d;
  const proj = project(a, [p + "qkv", p + "z", p + "b", p + "a"]);
  const conv = f.scratch("conv", [s.rows, channels]);
  const convState = tape.state(`conv.${layer}`, "f32", [c.convTaps - 1, channels]);
  tape.emit(convSilu, { proj, w: f.weight(p + "conv"), convState, y: conv }, {});
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
  tape.emit(
    s.rows > ROWS_MAX ? gdnChunk : gdnStep,
    { qk, conv, g, beta, gdnState, o },
    { headMap: c.headMap },
  );
  const y = f.scratch("gated", [s.rows, c.vHeads, d]);
  tape.emit(
    gatedRmsNorm,
    { o, proj, w: f.weight(p + "norm"), y },
    { zCol: channels, eps: c.normEps },
  );
  const flat = tape.view(y, 0, [s.rows, c.vHeads * d]);
  return project(new Activations(f, flat), [p + "out"]);
}

function recordMlp(f: Forward, layer: number, a: Activations): Tensor {
  const p = `layers.${layer}.mlp.`;
  return recordSwigluMlp(f, a, p + "gate", p + "up", p + "down", f.c.ffn);
}

/** Records one forward pass. */
export function recordForward(
  tape: Recorder,
  c: ModelConfig,
  weights: ReadonlyMap<string, WeightForm>,
  s: ForwardShape,
): void {
  const f = new Forward(tape, c, weights, s);
  const tap = s.tapLayers !== undefined;
  const layers = s.tapLayers ?? c.layers;
  const rowsOf = (name: string) =>
    tap ? tape.state(name, "f32", [s.rows, c.hidden]) : f.scratch(name, [s.rows, c.hidden]);
  const x = rowsOf("x"), h = rowsOf("normed");
  const eps = c.normEps;
  tape.emit(embed, { history: f.history, step: f.step, table: f.weight("embed"), y: x }, {});
  const normOf = (layer: number) => layer < layers ? `layers.${layer}.inputNorm` : "finalNorm";
  tape.emit(rmsNorm, { x, w: f.weight(normOf(0)), y: h }, { eps });
  for (let layer = 0; layer < layers; layer++) {
    const a = new Activations(f, h);
    const mixed = c.layerKinds[layer] === "gdn"
      ? recordGdn(f, layer, a)
      : recordAttention(f, layer, a);
    const postNorm = f.weight(`layers.${layer}.postNorm`);
    tape.emit(addRmsNorm, { x, delta: mixed, w: postNorm, y: h }, { eps });
    const b = new Activations(f, h);
    const delta = c.moe ? recordMoe(f, layer, b) : recordMlp(f, layer, b);
    tape.emit(addRmsNorm, { x, delta, w: f.weight(normOf(layer + 1)), y: h }, { eps });
  }
  recordOutput(f, h);
}

/** Rows of logits that are in memory at a time when only their likelihood is kept. */
const NLL_ROWS = 64;

function recordOutput(f: Forward, h: Tensor): void {
  const { c, s, tape } = f;
  const head = c.tied ? "embed" : "lmHead";
  const rowsFrom = (row: number, n: number) =>
    new Activations(f, tape.view(h, row * c.hidden, [n, c.hidden]));
  if (s.output === "sample") {
    const logits = tape.state("logits", "f32", [1, c.vocab]);
    projectInto(rowsFrom(s.rows - 1, 1), [head], logits);
    const picked = tape.state("picked", "u32", [1]);
    const work = f.scratch("work", [2, c.vocab]);
    tape.emit(sample, { logits, step: f.step, history: f.history, work, picked }, { rows: s.rows });
    tape.emit(stepAdvance, { picked, step: f.step, history: f.history }, { rows: s.rows });
    return;
  }
  if (s.output === "logits") {
    projectInto(rowsFrom(0, s.rows), [head], tape.state("logits", "f32", [s.rows, c.vocab]));
  }
  if (s.output === "nll") {
    const nll = tape.state("nll", "f32", [s.rows]);
    for (let first = 0; first < s.rows; first += NLL_ROWS) {
      const n = Math.min(NLL_ROWS, s.rows - first);
      const logits = project(rowsFrom(first, n), [head]);
      tape.emit(
        tokenNll,
        { logits, step: f.step, history: f.history, nll: tape.view(nll, first, [n]) },
        { first },
      );
    }
  }
  tape.emit(stepMove, { step: f.step }, { rows: s.rows });
}
