/**
 * Ops that join records of a decode step give the bits of the records that they join, states included, on every
 * device: a speculative round goes through the latter and must make the tokens of serial decode.
 */
import assert from "node:assert/strict";
import { Tape } from "../../ffi/tape/tape.ts";
import type { OpSpec, ParamSpecs, Sizes, Tensor, TensorSpecs } from "../../kernels/define.ts";
import { attnGate } from "../../kernels/ops/attn_gate/op.ts";
import { attnMerge } from "../../kernels/ops/attn_merge/op.ts";
import { attnMergeGate } from "../../kernels/ops/attn_merge_gate/op.ts";
import { convSilu } from "../../kernels/ops/conv_silu/op.ts";
import { gatedRmsNorm } from "../../kernels/ops/gated_rms_norm/op.ts";
import { gdnGates } from "../../kernels/ops/gdn_gates/op.ts";
import { gdnPrepare } from "../../kernels/ops/gdn_prepare/op.ts";
import { gdnQkNorm } from "../../kernels/ops/gdn_qk_norm/op.ts";
import { gdnStep } from "../../kernels/ops/gdn_step/op.ts";
import { gdnStepNorm } from "../../kernels/ops/gdn_step_norm/op.ts";
import { KERNEL_DEVICES, LEVELS } from "./devices.ts";
import { opCase } from "./op_case.ts";
import { playStates } from "./play_states.ts";
import { caseData } from "./record_case.ts";
import { shapeOf } from "./tensor_data.ts";

type Tensors = Readonly<Record<string, Tensor>>;

/**
 * Plays cases of `joined` beside what `apart` records over the same inputs, and compares what `joined` writes.
 * Both get the op's tensors by its names; what `apart` needs besides is a state of its own.
 */
function compare<T extends TensorSpecs, P extends ParamSpecs>(
  joined: OpSpec<T, P>,
  apart: (tape: Tape, t: Tensors, s: Sizes) => void,
): void {
  for (const s of joined.cases) {
    const c = opCase(joined as never, {}, s)!;
    const data = caseData(c), tape = new Tape(), given: Record<string, ArrayBufferView> = {};
    const written = Object.keys(joined.tensors).filter((key) => joined.tensors[key].role !== "in");
    const tensorsOf = (form: string) =>
      Object.fromEntries(
        Object.keys(joined.tensors).map((key) => {
          const name = written.includes(key) ? `${form} ${key}` : key;
          given[name] = data[key].parts[0];
          return [key, tape.state(name, c.dtypes[key] as never, shapeOf(c, key))];
        }),
      );
    tape.emit(joined, tensorsOf("joined") as never, s as never);
    apart(tape, tensorsOf("apart"), s);
    for (const level of [...LEVELS, ...KERNEL_DEVICES]) {
      const after = playStates(level, tape, given);
      for (const key of written) {
        const where = `${c.label} on ${level.isa}: ${key}`;
        assert.deepEqual(after[`joined ${key}`], after[`apart ${key}`], where);
      }
    }
  }
}

Deno.test("forms: gdn_prepare has the bits of conv_silu, gdn_gates and gdn_qk_norm", () => {
  compare(gdnPrepare, (tape, t, { bCol, aCol, eps }) => {
    const { proj, w, convState, negA, dtBias, conv, qk, beta, g } = t;
    tape.emit(convSilu, { proj, w, convState, y: conv }, {});
    tape.emit(gdnGates, { proj, negA, dtBias, beta, g }, { bCol, aCol });
    tape.emit(gdnQkNorm, { conv, qk }, { eps });
  });
});

Deno.test("forms: gdn_step_norm has the bits of gdn_step and gated_rms_norm", () => {
  compare(gdnStepNorm, (tape, t, { headMap, zCol, eps }) => {
    const { qk, conv, g, beta, gdnState, proj, w, y } = t;
    const o = tape.state("o", "f32", y.shape);
    tape.emit(gdnStep, { qk, conv, g, beta, gdnState, o }, { headMap });
    tape.emit(gatedRmsNorm, { o, proj, w, y }, { zCol, eps });
  });
});

Deno.test("forms: attn_merge_gate has the bits of attn_merge and attn_gate", () => {
  compare(attnMergeGate, (tape, { partial, stats, step, qkv, o }) => {
    tape.emit(attnMerge, { partial, stats, step, o }, {});
    tape.emit(attnGate, { o, qkv }, {});
  });
});
