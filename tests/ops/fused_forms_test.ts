/**
 * Two ways to one result: select_topk in parts and then over what they selected gives the bits of one record, on
 * every device; norm_gemv gives those of rms_norm and gemv on the CPU.
 */
import assert from "node:assert/strict";
import { Tape } from "../../ffi/tape/tape.ts";
import type { Tensor } from "../../kernels/define.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { normGemv } from "../../kernels/ops/norm_gemv/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { selectTopk } from "../../kernels/ops/select_topk/op.ts";
import { seeded } from "../random.ts";
import { KERNEL_DEVICES, LEVELS } from "./devices.ts";
import { playStates } from "./play_states.ts";

Deno.test("forms: select_topk of parts, then of their selections, is that of the whole row", () => {
  const rows = 3, vocab = 5000, topK = 16, random = seeded(5);
  const logits = Float32Array.from(
    { length: rows * vocab },
    (_, i) => i >= 2 * vocab ? (i % 700 === 0 ? 1 : NaN) : Math.floor(40 * random()),
  );
  for (const level of [...LEVELS, ...KERNEL_DEVICES]) {
    for (const parts of [1, 2, 7, 32]) {
      const tape = new Tape();
      const x = tape.state("logits", "f32", [rows, vocab]);
      const out = (name: string, n: number): [Tensor, Tensor] => [
        tape.state(`${name} ids`, "u32", [rows, n, topK]),
        tape.state(`${name} values`, "f32", [rows, n, topK]),
      ];
      const [ids, values] = out("whole", 1), [partIds, partValues] = out("part", parts);
      const [lastIds, lastValues] = out("last", 1);
      tape.emit(selectTopk, { logits: x, ids, values }, {});
      tape.emit(selectTopk, { logits: x, ids: partIds, values: partValues }, {});
      const flat = (t: Tensor) => tape.view(t, 0, [rows, parts * topK]);
      const from = flat(partIds);
      tape.emit(
        selectTopk,
        { logits: flat(partValues), from, ids: lastIds, values: lastValues },
        {},
      );
      const after = playStates(level, tape, { logits });
      assert.deepEqual(after["last ids"], after["whole ids"], `${level.isa}, ${parts} parts`);
      assert.deepEqual(after["last values"], after["whole values"], `${level.isa}, ${parts} parts`);
      const chosen = [
        ...new Uint32Array(after["last ids"].buffer).subarray(2 * topK, 2 * topK + 9),
      ];
      // Of 10000..14999 each 700th is a number.
      assert.deepEqual(chosen, [500, 1200, 1900, 2600, 3300, 4000, 4700, 2 ** 32 - 1, 2 ** 32 - 1]);
    }
  }
});

Deno.test("forms: norm_gemv has the bits of rms_norm and gemv on the CPU", () => {
  const rows = 5, dim = 77, out = 40, eps = 1e-6, random = seeded(6);
  const floats = (n: number) => Float32Array.from({ length: n }, () => random() - 0.5);
  const given = { x: floats(rows * dim), norm: floats(dim), w: floats(out * dim) };
  for (const level of LEVELS) {
    const tape = new Tape();
    const x = tape.state("x", "f32", [rows, dim]), w = tape.state("norm", "f32", [dim]);
    const w0 = tape.state("w", "f32", [out, dim]),
      normed = tape.state("normed", "f32", [rows, dim]);
    const apart = tape.state("apart", "f32", [rows, out]);
    const fused = tape.state("fused", "f32", [rows, out]);
    tape.emit(rmsNorm, { x, w, y: normed }, { eps });
    tape.emit(gemv, { x: normed, w0, y: apart }, { yCol: 0 });
    tape.emit(normGemv, { x, w0, wNorm: w, y: fused }, { yCol: 0, eps });
    const after = playStates(level, tape, given);
    assert.deepEqual(after.fused, after.apart, level.isa);
  }
});
