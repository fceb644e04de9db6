/**
 * Ops that join records of a decode step give the bits of the records that they join, states included. Those of
 * the recurrent layers and of attention do so on every device: a speculative round goes through the records
 * apart and must make the tokens of serial decode. Products do on the CPU.
 */
import assert from "node:assert/strict";
import { Tape } from "../../ffi/tape/tape.ts";
import type { OpSpec, ParamSpecs, Sizes, Tensor, TensorSpecs } from "../../kernels/define.ts";
import { addRmsNorm } from "../../kernels/ops/add_rms_norm/op.ts";
import { attnDecode } from "../../kernels/ops/attn_decode/op.ts";
import { attnDecodeGate } from "../../kernels/ops/attn_decode_gate/op.ts";
import { attnGate } from "../../kernels/ops/attn_gate/op.ts";
import { attnMerge } from "../../kernels/ops/attn_merge/op.ts";
import { attnMergeGate } from "../../kernels/ops/attn_merge_gate/op.ts";
import { convSilu } from "../../kernels/ops/conv_silu/op.ts";
import { gatedRmsNorm } from "../../kernels/ops/gated_rms_norm/op.ts";
import { gdnDecode } from "../../kernels/ops/gdn_decode/op.ts";
import { gdnGates } from "../../kernels/ops/gdn_gates/op.ts";
import { gdnQkNorm } from "../../kernels/ops/gdn_qk_norm/op.ts";
import { gdnStep } from "../../kernels/ops/gdn_step/op.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { gemvAdd } from "../../kernels/ops/gemv_add/op.ts";
import { moeDown } from "../../kernels/ops/moe_down/op.ts";
import { moeDownAdd } from "../../kernels/ops/moe_down_add/op.ts";
import { moeGateUp } from "../../kernels/ops/moe_gate_up/op.ts";
import { moeRouteGateUp } from "../../kernels/ops/moe_route_gate_up/op.ts";
import { moeSharedAdd } from "../../kernels/ops/moe_shared_add/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { routerTopk } from "../../kernels/ops/router_topk/op.ts";
import { swiglu } from "../../kernels/ops/swiglu/op.ts";
import { KERNEL_DEVICES, type Level, LEVELS } from "./devices.ts";
import { type Dtypes, opCase, variantsOf } from "./op_case.ts";
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
  levels: readonly Level[] = [...LEVELS, ...KERNEL_DEVICES],
  variants: readonly Dtypes[] = variantsOf(joined as never).slice(0, 1),
): void {
  const cases = variants.flatMap((v) => joined.cases.map((s) => opCase(joined as never, v, s)!));
  for (const c of cases) {
    const s = c.sizes;
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
    for (const level of levels) {
      const after = playStates(level, tape, given);
      for (const key of written) {
        const where = `${c.label} on ${level.isa}: ${key}`;
        assert.deepEqual(after[`joined ${key}`], after[`apart ${key}`], where);
      }
    }
  }
}

Deno.test("forms: gdn_decode has the bits of the records of a recurrent layer", () => {
  compare(gdnDecode, (tape, t, s) => {
    const { proj, w, convState, negA, dtBias, gdnState, wNorm, y } = t;
    const { rows, channels, kHeads, vHeads, headDim, headMap, bCol, aCol, zCol, eps, qkEps } = s;
    const made = (name: string, ...shape: number[]) => tape.state(name, "f32", shape);
    const conv = made("conv", rows, channels), qk = made("qk", rows, 2, kHeads, headDim);
    const beta = made("beta", rows, vHeads), g = made("g", rows, vHeads);
    const o = made("o", rows, vHeads, headDim);
    tape.emit(convSilu, { proj, w, convState, y: conv }, {});
    tape.emit(gdnGates, { proj, negA, dtBias, beta, g }, { bCol, aCol });
    tape.emit(gdnQkNorm, { conv, qk }, { eps: qkEps });
    tape.emit(gdnStep, { qk, conv, g, beta, gdnState, o }, { headMap });
    tape.emit(gatedRmsNorm, { o, proj, w: wNorm, y }, { zCol, eps });
  });
});

Deno.test("forms: attn_merge_gate has the bits of attn_merge and attn_gate", () => {
  compare(attnMergeGate, (tape, { partial, stats, step, qkv, o }) => {
    tape.emit(attnMerge, { partial, stats, step, o }, {});
    tape.emit(attnGate, { o, qkv }, {});
  });
});

Deno.test("forms: attn_decode_gate has the bits of attn_decode and attn_gate", () => {
  const apart = (tape: Tape, t: Tensors, { scale }: Sizes) => {
    const { q, kCache, vCache, step, qkv, o } = t;
    tape.emit(attnDecode, { q, kCache, vCache, step, o }, { scale });
    tape.emit(attnGate, { o, qkv }, {});
  };
  compare(attnDecodeGate, apart, undefined, variantsOf(attnDecodeGate as never));
});

/** x += delta, by the op that the residual stream takes for it. */
function addTo(tape: Tape, x: Tensor, delta: Tensor): void {
  const w = tape.state("ones", "f32", [x.shape[1]]), y = tape.state("normed", "f32", x.shape);
  tape.emit(addRmsNorm, { x, delta, w, y }, { eps: 1e-6 });
}

Deno.test("forms: gemv_add has the bits of gemv and an addition on the CPU", () => {
  compare(gemvAdd, (tape, { x, w, y }) => {
    const delta = tape.state("delta", "f32", y.shape);
    tape.emit(gemv, { x, w0: w, y: delta }, { yCol: 0 });
    addTo(tape, y, delta);
  }, LEVELS);
});

/** The part of row r of h that its chosen experts have, and that of the shared expert. */
function slotsOfRow(tape: Tape, h: Tensor, r: number, { topK, slots, ffn }: Sizes) {
  const at = r * slots * ffn;
  return {
    routed: tape.view(h, at, [1, topK, ffn]),
    shared: tape.view(h, at + topK * ffn, [1, ffn]),
  };
}

/** Row r of a matrix. */
function rowOf(tape: Tape, t: Tensor, r: number): Tensor {
  return tape.view(t, r * t.shape[1], [1, t.shape[1]]);
}

Deno.test("forms: moe_route_gate_up has the bits of the records that it joins on the CPU", () => {
  compare(moeRouteGateUp, (tape, t, s) => {
    const { x, wNorm, logits, gate, up, sharedGate, sharedUp, ids, weights, h } = t;
    const { experts, gateRow, upRow, eps } = s;
    const normed = tape.state("normed", "f32", x.shape);
    const gu = tape.state("gu", "f32", [s.rows, 2 * s.ffn]);
    tape.emit(rmsNorm, { x, w: wNorm, y: normed }, { eps });
    tape.emit(routerTopk, { logits, ids, weights }, { experts });
    tape.emit(gemv, { x: normed, w0: sharedGate, w1: sharedUp, y: gu }, { yCol: 0 });
    for (let r = 0; r < s.rows; r++) {
      const { routed, shared } = slotsOfRow(tape, h, r, s);
      const row = { x: rowOf(tape, normed, r), ids: rowOf(tape, ids, r) };
      tape.emit(moeGateUp, { ...row, gate, up, h: routed }, { gateRow, upRow });
      tape.emit(swiglu, { gu: rowOf(tape, gu, r), h: shared }, {});
    }
  }, LEVELS);
});

Deno.test("forms: moe_down_add has the bits of the records that it joins on the CPU", () => {
  compare(moeDownAdd, (tape, { h, ids, weights, logits, down, sharedDown, x }, s) => {
    const moe = tape.state("moe", "f32", x.shape), shared = tape.state("shared", "f32", x.shape);
    for (let r = 0; r < s.rows; r++) {
      const from = slotsOfRow(tape, h, r, s);
      const row = { ids: rowOf(tape, ids, r), weights: rowOf(tape, weights, r) };
      tape.emit(moeDown, { h: from.routed, ...row, down, y: rowOf(tape, moe, r) }, {});
      tape.emit(gemv, { x: from.shared, w0: sharedDown, y: rowOf(tape, shared, r) }, { yCol: 0 });
    }
    tape.emit(moeSharedAdd, { moe, shared, logits }, { gateCol: s.gateCol });
    addTo(tape, x, moe);
  }, LEVELS);
});
