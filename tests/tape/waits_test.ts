/** Which records wait: true dependencies, memory shared by views or by the planner, and nothing else. */
import assert from "node:assert/strict";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { accumulate, mix } from "./sample_ops.ts";

const N = 8;

/** A tape with three states and what it waits for. */
function waits(recordAll: (t: Tape, s: ReturnType<typeof states>) => void): boolean[] {
  const t = new Tape();
  recordAll(t, states(t));
  return [...planTape(t).waits];
}

function states(t: Tape) {
  const state = (name: string) => t.state(name, "f32", [N]);
  return { a: state("a"), b: state("b"), c: state("c"), d: state("d") };
}

const CASES: [string, boolean[], (t: Tape, s: ReturnType<typeof states>) => void][] = [
  ["reading what was written", [false, true], (t, { a, b, c, d }) => {
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a: c, b, y: d }, {});
  }],
  ["writing what was read", [false, true], (t, { a, b, c, d }) => {
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a: d, b: d, y: a }, {});
  }],
  ["writing what was written", [false, true], (t, { a, b, c, d }) => {
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a: d, b: d, y: c }, {});
  }],
  ["updating what was updated", [false, true], (t, { a, b, c }) => {
    t.emit(accumulate, { a, y: c }, {});
    t.emit(accumulate, { a: b, y: c }, {});
  }],
  ["nothing: reads only meet", [false, false, false], (t, { a, b, c, d }) => {
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a, b, y: d }, {});
    t.emit(mix, { a, b: a, y: t.scratch("s", "f32", [N]) }, {});
  }],
  ["earlier records only once", [false, true, false], (t, { a, b, c, d }) => {
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a: c, b, y: d }, {});
    // What it reads was finished before the second record began.
    t.emit(mix, { a: c, b: c, y: t.scratch("s", "f32", [N]) }, {});
  }],
  ["a dependency across a wait", [false, false, true, true], (t, { a, b, c, d }) => {
    const s = t.scratch("s", "f32", [N]);
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a, b, y: d }, {});
    t.emit(mix, { a: c, b: d, y: s }, {});
    t.emit(accumulate, { a: s, y: c }, {});
  }],
  ["overlapping views", [false, true], (t, { a, b, c, d }) => {
    t.emit(mix, { a: t.view(a, 0, [5]), b: t.view(b, 0, [5]), y: t.view(c, 0, [5]) }, {});
    t.emit(mix, { a: t.view(c, 4, [4]), b: t.view(b, 0, [4]), y: t.view(d, 0, [4]) }, {});
  }],
  ["nothing: views side by side", [false, false], (t, { a, b, c, d }) => {
    t.emit(mix, { a: t.view(a, 0, [4]), b: t.view(b, 0, [4]), y: t.view(c, 0, [4]) }, {});
    t.emit(mix, { a: t.view(c, 4, [4]), b: t.view(b, 0, [4]), y: t.view(d, 0, [4]) }, {});
  }],
  ["a view of what was written whole", [false, true], (t, { a, b, c, d }) => {
    t.emit(mix, { a, b, y: c }, {});
    t.emit(mix, { a: t.view(c, 7, [1]), b: t.view(b, 0, [1]), y: t.view(d, 0, [1]) }, {});
  }],
];

for (const [what, want, recordAll] of CASES) {
  Deno.test(`waits: ${what}`, () => assert.deepEqual(waits(recordAll), want));
}

Deno.test("waits: scratch that takes over the memory of other scratch", () => {
  const t = new Tape(), { a, b, c, d } = states(t);
  const first = t.scratch("first", "f32", [N]), second = t.scratch("second", "f32", [N]);
  t.emit(mix, { a, b, y: first }, {});
  t.emit(mix, { a: first, b, y: c }, {});
  // Independent of the records before by name, but it writes where `first` lay.
  t.emit(mix, { a, b, y: second }, {});
  t.emit(mix, { a: second, b, y: d }, {});
  const planned = planTape(t);
  assert.equal(planned.offsets[first.slots[0]], planned.offsets[second.slots[0]]);
  assert.deepEqual([...planned.waits], [false, true, true, true]);
  assert.equal(planned.scratchBytes, 256);
});

Deno.test("waits: scratch that is used in one record keeps its own memory beside its neighbours", () => {
  const t = new Tape(), { a, b } = states(t);
  const all = Array.from({ length: 4 }, (_, i) => t.scratch(`s${i}`, "f32", [N]));
  all.forEach((y) => t.emit(mix, { a, b, y }, {}));
  all.forEach((y) => t.emit(accumulate, { a: y, y: a }, {}));
  const planned = planTape(t);
  assert.equal(new Set(all.map((s) => planned.offsets[s.slots[0]])).size, 4);
  assert.deepEqual(planned.waits.slice(0, 4), [false, false, false, false]);
});
