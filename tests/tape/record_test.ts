/** What a tape refuses to record, in words that name the tensor, the axis and both sizes. */
import assert from "node:assert/strict";
import type { DType, Format, Tensor } from "../../kernels/define.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { mix, strict } from "./sample_ops.ts";

interface Given {
  a?: Tensor;
  b?: Tensor;
  w?: Tensor;
  y?: Tensor;
}

/** Records `strict` with one thing changed. */
function record(change: (t: Tape, given: Given) => Given, params = { column: 0, scale: 1 }) {
  const t = new Tape();
  const given = {
    a: t.state("a", "f32", [2, 64]),
    w: t.weight("w", "f32", [64, 64]),
    y: t.state("y", "f32", [2, 70]),
  };
  t.emit(strict, { ...given, ...change(t, given) }, params);
  return t.records[0];
}

const tensor = (t: Tape, dtype: DType, shape: number[]) => t.scratch("other", dtype, shape);

const REFUSALS: [string, () => unknown, RegExp][] = [
  [
    "an axis of two sizes",
    () => record((t) => ({ y: tensor(t, "f32", [3, 70]) })),
    /rows is 2 in a and 3 in y \(other\)/,
  ],
  [
    "a dtype without a kernel",
    () => record((t) => ({ a: tensor(t, "bf16", [2, 64]) })),
    /a is bf16, not one of f32, f16/,
  ],
  ["a missing tensor", () => record(() => ({ y: undefined })), /y is missing/],
  [
    "the wrong rank",
    () => record((t) => ({ y: tensor(t, "f32", [140]) })),
    /y \(other\) has shape \[140\], not \[rows, wide\]/,
  ],
  [
    "dtypes that must agree",
    () => record((t) => ({ b: tensor(t, "f16", [2, 64]) })),
    /b is f16 and a is f32/,
  ],
  [
    "a tensor it does not have",
    () => record((t) => ({ z: tensor(t, "f32", [1]) }) as Given),
    /it has no tensor z/,
  ],
  [
    "a parameter that is no number",
    () => record(() => ({}), { column: 0, scale: NaN }),
    /parameter scale is NaN/,
  ],
  [
    "a broken sum",
    () => record(() => ({}), { column: 7, scale: 1 }),
    /column \+ dim is 71, more than wide \(70\)/,
  ],
  ["a negative u32 parameter", () => record(() => ({}), { column: -1, scale: 1 }), /column is -1/],
  [
    "a fractional u32 parameter",
    () => record(() => ({}), { column: 0.5, scale: 1 }),
    /column is 0.5/,
  ],
];

for (const [what, act, says] of REFUSALS) {
  Deno.test(`record: refuses ${what}`, () => {
    assert.throws(act, (e: Error) => {
      assert.match(e.message, /^Cannot record strict: /);
      assert.match(e.message, says);
      return true;
    });
  });
}

Deno.test("record: refuses a size without a kernel", () => {
  const t = new Tape();
  const given = {
    a: t.state("a", "f32", [2, 192]),
    w: t.weight("w", "f32", [192, 192]),
    y: t.state("y", "f32", [2, 192]),
  };
  const emit = () => t.emit(strict, given, { column: 0, scale: 1 });
  assert.throws(emit, /dim is 192, and there are kernels for 64, 128/);
});

Deno.test("record: refuses sizes that are no sizes", () => {
  const t = new Tape();
  for (const n of [0, -1, 1.5, NaN, 2 ** 25]) {
    assert.throws(() => t.scratch("x", "f32", [4, n]), /x has size/);
  }
});

Deno.test("record: a name stands for one shape and dtype", () => {
  const t = new Tape();
  const x = t.state("x", "f32", [4]);
  assert.equal(t.state("x", "f32", [4]), x);
  assert.throws(() => t.state("x", "f32", [5]), /x is f32\[4\] on this tape, not f32\[5\]/);
  assert.throws(() => t.state("x", "f16", [4]), /not f16\[4\]/);
  assert.equal(t.find("x"), x);
  assert.equal(t.find("y"), null);
});

Deno.test("record: views stay inside and add up", () => {
  const t = new Tape();
  const x = t.scratch("x", "f32", [10]);
  const v = t.view(t.view(x, 2, [6]), 3, [3]);
  assert.equal(t.slots[v.slots[0]].offset, 20);
  assert.equal(t.slots[v.slots[0]].base, x.slots[0]);
  assert.throws(() => t.view(x, 8, [3]), /Cannot view x: 3 at 8 is outside it/);
  assert.throws(() => t.view(x, -1, [3]), /outside it/);
  assert.throws(() => t.view(t.view(x, 2, [6]), 4, [3]), /outside it/);
  const w = t.weight("w", "q4g64_f16" as Format, [2, 64]);
  assert.throws(() => t.view(w, 0, [1, 64]), /no single elements/);
});

Deno.test("record: kernel, sizes and tasks are settled", () => {
  const r = record((t) => ({ w: t.weight("packed", "q4g64_f16", [64, 64]) }), {
    column: 3,
    scale: 0.5,
  });
  assert.equal(r.kernel, "strict__f32_q4g64_f16_d64");
  assert.equal(r.tasks, 2);
  assert.equal(r.sizes.column, 3);
  assert.deepEqual(r.tensors.w.slots.length, 3);
  assert.equal(r.tensors.b, undefined);
});

Deno.test("record: an op may read one tensor twice", () => {
  const t = new Tape();
  const x = t.state("x", "f32", [4]);
  t.emit(mix, { a: x, b: x, y: t.scratch("y", "f32", [4]) }, {});
  assert.equal(t.records.length, 1);
});
