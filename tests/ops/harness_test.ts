/** The parity harness itself: a wrong element, a stray write and a missing kernel must not pass. */
import assert from "node:assert/strict";
import { defineOp, type Op } from "../../kernels/define.ts";
import { kernelNames } from "../../kernels/define.ts";
import { OPS } from "../../kernels/table.ts";
import { casesOf, opCase } from "./op_case.ts";
import { caseData, contentsOf, expectedValues, partsByTensor, recordCase } from "./record_case.ts";
import { decodeParts, encodeValues, poisonData } from "./tensor_data.ts";
import { differences } from "./tolerance.ts";

const rmsNorm = OPS.find((o) => o.name === "rms_norm")!;
const c = opCase(rmsNorm, {}, { rows: 3, dim: 5, eps: 1e-6 })!;

Deno.test("harness: every kernel has a case", () => {
  for (const op of OPS) {
    const tested = new Set(casesOf(op).map((one) => one.kernel));
    assert.deepEqual(kernelNames(op).filter((name) => !tested.has(name)), [], op.name);
  }
});

Deno.test("harness: every case fits some variant", () => {
  for (const op of OPS) {
    const tested = new Set(casesOf(op).map((one) => one.label.slice(one.kernel.length)));
    assert.equal(tested.size, new Set(op.cases.map((s) => JSON.stringify(s))).size, op.name);
  }
});

Deno.test("harness: an element outside the tolerance is reported with its place", () => {
  const data = caseData(c), want = expectedValues(c, data).y as Float64Array;
  const right = [encodeValues("f32", [3, 5], want)];
  assert.deepEqual(differences(c, "y", data.y, right, want), []);
  const values = want.slice();
  values[7] += 1e-4;
  const lines = differences(c, "y", data.y, [encodeValues("f32", [3, 5], values)], want);
  assert.equal(lines.length, 2);
  assert.match(lines[0], /^y\[1,2\] got /);
  values[7] = NaN;
  assert.equal(differences(c, "y", data.y, [encodeValues("f32", [3, 5], values)], want).length, 2);
});

Deno.test("harness: what the reference leaves alone must keep its poison", () => {
  const data = caseData(c), want = new Float64Array(15).fill(NaN);
  assert.deepEqual(differences(c, "y", data.y, data.y.parts, want), []);
  const written = [data.y.parts[0].slice()];
  written[0].set([0, 0, 0xc0, 0x7f], 4 * 6);
  assert.equal(differences(c, "y", data.y, written, want).length, 2);
});

Deno.test("harness: canaries and inputs are watched", () => {
  const recorded = recordCase(c), data = caseData(c);
  const before = recorded.arena.image(contentsOf(recorded, data));
  assert.equal(recorded.arena.strayWrite(before, before), null);
  for (
    const [shift, says] of [[-1, /canary 1 bytes before x/], [0, /input x was changed at byte 0/]]
  ) {
    const after = recorded.arena.image(contentsOf(recorded, data));
    after[recorded.arena.places[0].begin + (shift as number)] ^= 1;
    assert.match(recorded.arena.strayWrite(before, after)!, says as RegExp);
  }
  const after = recorded.arena.image(contentsOf(recorded, data));
  after[after.length - 1] ^= 1;
  assert.match(recorded.arena.strayWrite(before, after)!, /behind y was overwritten/);
  const contents = recorded.arena.contents(before);
  assert.deepEqual(partsByTensor(recorded, contents).w[0], data.w.parts[0]);
});

Deno.test("harness: absent optional tensors are neither bound nor compared", () => {
  const op = defineOp({
    name: "sum_of_some",
    doc: "",
    tensors: {
      a: { axes: ["n"], dtypes: ["f32"], role: "in" },
      b: { axes: ["m"], dtypes: ["f32"], role: "in", optional: true },
      y: { axes: ["n"], dtypes: ["f32"], role: "out" },
    },
    params: {},
    constraints: [],
    tasks: () => 1,
    simt: { none: "a test" },
    reference: () => {},
    tolerance: {},
    cases: [],
    flops: () => 0,
  }) as unknown as Op;
  assert.deepEqual(Object.keys(opCase(op, {}, { n: 2, m: 0 })!.dtypes), ["a", "y"]);
  assert.deepEqual(Object.keys(opCase(op, {}, { n: 2, m: 1 })!.dtypes), ["a", "b", "y"]);
});

Deno.test("harness: poison reads as NaN and survives a round trip", () => {
  for (const dtype of ["f32", "f16", "bf16"] as const) {
    const { parts } = poisonData(dtype, [6]);
    assert.ok([...decodeParts(dtype, [6], parts)].every(Number.isNaN), dtype);
  }
});
