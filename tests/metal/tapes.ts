/** Tapes for the Metal player's tests: a counter of tokens, a long chain, and what fills their memory. */
import { argmax } from "../../kernels/ops/argmax/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { stepAdvance } from "../../kernels/ops/step_advance/op.ts";
import { HALT, STEP, STEP_WORDS } from "../../kernels/step.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import type { Slot } from "../../ffi/tape/tape.ts";
import { normal, seeded } from "../random.ts";

export const VOCAB = 96, CTX = 64;

/**
 * One token a play: state = norm(norm(state)), picked = argmax(state). The state changes with each play, so that one
 * too many shows in it as well as in the step block.
 */
export function counterTape(): Tape {
  const t = new Tape();
  const state = t.state("state", "f32", [1, VOCAB]);
  const w = t.weight("norm", "f32", [VOCAB]);
  const step = t.state("step", "u32", [STEP_WORDS]), history = t.state("history", "u32", [CTX]);
  const h = t.scratch("h", "f32", [1, VOCAB]);
  const picked = t.scratch("picked", "u32", [1]);
  t.emit(rmsNorm, { x: state, w, y: h }, { eps: 1e-6 });
  t.emit(rmsNorm, { x: h, w, y: state }, { eps: 1e-5 });
  t.emit(argmax, { logits: state, step, picked }, {});
  t.emit(stepAdvance, { picked, step, history }, { rows: 1 });
  return t;
}

/** x -> s0 -> s1 ... -> y, each a norm of the one before with a weight of its own. */
export function longTape(records: number): Tape {
  const t = new Tape();
  let x = t.state("x", "f32", [2, VOCAB]);
  for (let i = 0; i < records; i++) {
    const y = i === records - 1
      ? t.state("y", "f32", [2, VOCAB])
      : t.scratch(`s${i}`, "f32", [2, VOCAB]);
    t.emit(rmsNorm, { x, w: t.weight(`w${i}`, "f32", [VOCAB]), y }, { eps: 1e-6 });
    x = y;
  }
  return t;
}

/** Seeded contents; a step block that halts after `limit` tokens. */
export function contentsOf(limit = 1000): (s: Slot) => Uint8Array<ArrayBuffer> {
  const random = seeded(7);
  return (s) => {
    if (s.name === "step") return new Uint8Array(stepBlock(limit).buffer);
    if (s.dtype === "u32") return new Uint8Array(s.bytes);
    if (s.dtype === "f32") {
      const values = Float32Array.from({ length: s.bytes / 4 }, () => normal(random));
      return new Uint8Array(values.buffer);
    }
    if (s.part === "values" && s.dtype.startsWith("q")) {
      return Uint8Array.from({ length: s.bytes }, () => Math.floor(random() * 256));
    }
    const words = new Uint32Array(
      Float32Array.from({ length: s.bytes / 2 }, () => normal(random) / 8).buffer,
    );
    return new Uint8Array(Uint16Array.from(words, (w) => w >>> 16).buffer);
  };
}

export function stepBlock(limit: number): Uint32Array<ArrayBuffer> {
  const step = new Uint32Array(STEP_WORDS);
  step[STEP.halt] = HALT.running;
  step[STEP.limit] = limit;
  step[STEP.ctx] = CTX;
  step[STEP.vocabUsed] = VOCAB;
  return step;
}
