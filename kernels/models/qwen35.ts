/**
 * Qwen3.5 / Qwen3.6 (dense and MoE) as records: the forward pass in the order of the formula. Owns which
 * ops stand for which line of the model and what a plan switches; knows no file, memory or device.
 */
import type { Recorder, Tensor } from "../define.ts";
import { embed } from "../ops/embed/op.ts";
import { sample } from "../ops/sample/op.ts";
import { stepAdvance } from "../ops/step_advance/op.ts";
import { stepMove } from "../ops/step_move/op.ts";
import { tokenNll } from "../ops/token_nll/op.ts";
import {
  type Activations,
  Forward,
  type ForwardShape,
  outputHead,
  project,
  projectInto,
  Stream,
  type WeightForm,
} from "./forward.ts";
import type { ModelConfig } from "./qwen35_config.ts";
import { recordAttention, recordFfn, recordGdn } from "./qwen35_layers.ts";
import { recordDraftHead } from "./qwen35_mtp.ts";
import { Recurrent } from "./qwen35_recurrent.ts";
import { recordRound } from "./qwen35_round.ts";

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
  const x = rowsOf("x");
  let normed: Tensor | undefined;
  const stream = new Stream(f, x, () => normed ??= rowsOf("normed"));
  tape.emit(embed, { history: f.history, step: f.step, table: f.weight("embed"), y: x }, {
    ahead: 0,
  });
  const recurrent = new Recurrent(f);
  for (let layer = 0; layer < layers; layer++) {
    const block = `layers.${layer}`, a = stream.norm(`${block}.inputNorm`);
    if (c.layerKinds[layer] === "gdn") recordGdn(f, layer, a, stream, recurrent);
    else recordAttention(f, block, `kv.${layer}`, a, stream);
    recordFfn(f, block, stream.norm(`${block}.postNorm`), stream);
  }
  const last = stream.norm("finalNorm");
  if (s.output === "round") recordRound(f, last, recurrent);
  else recordOutput(f, last);
  if (!s.head && !tap) return;
  const rows = last.x;
  if (s.head) recordDraftHead(f, rows);
}

/** Rows of logits that are in memory at a time when only their likelihood is kept. */
const NLL_ROWS = 64;

/** `h` are the final normed rows. */
function recordOutput(f: Forward, h: Activations): void {
  const { c, s, tape } = f;
  const head = outputHead(c);
  if (s.output === "sample") {
    const logits = tape.state("logits", "f32", [1, c.vocab]);
    projectInto(h.part(s.rows - 1, 1), [head], logits);
    const picked = tape.state("picked", "u32", [1]);
    const work = f.scratch("work", [2, c.vocab]);
    tape.emit(sample, { logits, step: f.step, history: f.history, work, picked }, { rows: s.rows });
    tape.emit(stepAdvance, { picked, step: f.step, history: f.history }, { rows: s.rows });
    return;
  }
  if (s.output === "logits") {
    projectInto(h, [head], tape.state("logits", "f32", [s.rows, c.vocab]));
  }
  if (s.output === "nll") {
    const nll = tape.state("nll", "f32", [s.rows]);
    for (let first = 0; first < s.rows; first += NLL_ROWS) {
      const n = Math.min(NLL_ROWS, s.rows - first);
      const logits = project(h.part(first, n), [head]);
      tape.emit(
        tokenNll,
        { logits, step: f.step, history: f.history, nll: tape.view(nll, first, [n]) },
        { first },
      );
    }
  }
  tape.emit(stepMove, { step: f.step }, { rows: s.rows });
}
