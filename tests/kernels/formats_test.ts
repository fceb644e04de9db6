/** Number formats against their definitions, and Philox against its published vectors. */
import assert from "node:assert/strict";
import { codeAt } from "../../kernels/formats/act8.ts";
import {
  AFFINE_FORMATS,
  isAffine,
  packCodes,
  packWeight,
  parseAffine,
  unpackCodes,
  unpackWeight,
  WEIGHT_FORMATS,
  weightBytes,
} from "../../kernels/formats/affine.ts";
import {
  bf16ToNumber,
  f16ToNumber,
  numberToBf16,
  numberToF16,
} from "../../kernels/formats/float.ts";
import { packQ8, q8RowBytes, roundQ8, unpackQ8 } from "../../kernels/formats/q8.ts";
import { philox4x32 } from "../../kernels/shared/philox.ts";
import { normal, seeded } from "../random.ts";

const HALVES = [
  { name: "f16", widen: f16ToNumber, narrow: numberToF16, infinity: 0x7c00 },
  { name: "bf16", widen: bf16ToNumber, narrow: numberToBf16, infinity: 0x7f80 },
];

for (const { name, widen, narrow, infinity } of HALVES) {
  Deno.test(`formats: every ${name} survives, and every tie goes to the even one`, () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const value = widen(bits);
      if (Number.isNaN(value)) assert.ok(Number.isNaN(widen(narrow(value))));
      else assert.equal(narrow(value), bits, `bits ${bits.toString(16)}`);
    }
    for (let bits = 0; bits + 1 < infinity; bits++) {
      const low = widen(bits), high = widen(bits + 1), middle = (low + high) / 2;
      // Half way below the smallest bf16 subnormals there is no f32.
      if (Math.fround(middle) !== middle) continue;
      const even = bits % 2 ? bits + 1 : bits;
      assert.equal(narrow(middle), even, `between ${low} and ${high}`);
      assert.equal(narrow(-middle), even | 0x8000);
    }
    assert.equal(narrow(Infinity), infinity);
    assert.equal(narrow(3.4e38), infinity);
  });
}

Deno.test("formats: q8 rows round to the nearest code and are stable", () => {
  const random = seeded(1);
  const x = Float64Array.from({ length: 3 * 64 }, () => normal(random));
  x.fill(0, 32, 64);
  const bytes = packQ8(x, 64);
  assert.equal(bytes.length, 3 * q8RowBytes(64));
  const y = unpackQ8(bytes, 64);
  y.forEach((v, i) => {
    const group = x.subarray(i - i % 32, i - i % 32 + 32);
    const step = Math.max(...group.map(Math.abs)) / 127;
    assert.ok(Math.abs(v - x[i]) <= 0.51 * step, `${i}: ${v}, not ${x[i]}`);
  });
  const rounded = x.slice();
  roundQ8(rounded);
  assert.deepEqual(rounded, y);
  assert.deepEqual(packQ8(y, 64), bytes);
});

Deno.test("formats: names of weights", () => {
  assert.equal(AFFINE_FORMATS.length, 16);
  assert.equal(WEIGHT_FORMATS.length, 19);
  for (const f of AFFINE_FORMATS) {
    const { bits, group, scale } = parseAffine(f);
    assert.equal(`q${bits}g${group}_${scale}`, f);
  }
  for (const odd of ["q4g48_f16", "q3g64_f16", "q4g64", "q4g64_f32", "f16", ""]) {
    assert.equal(isAffine(odd), false);
    assert.throws(() => parseAffine(odd), RangeError);
  }
});

Deno.test("formats: codes lie lowest first", () => {
  assert.deepEqual([...packCodes(4, [1, 2, 3, 15])], [0x21, 0xf3]);
  assert.deepEqual([...unpackCodes(4, new Uint8Array([0x21, 0xf3]))], [1, 2, 3, 15]);
  assert.deepEqual([...packCodes(8, [7, 255])], [7, 255]);
});

Deno.test("formats: a weight comes back within a step, zeros exactly", () => {
  const random = seeded(2);
  const x = Float64Array.from({ length: 2 * 256 }, () => normal(random));
  x.fill(0, 0, 128);
  for (const format of WEIGHT_FORMATS) {
    const parts = packWeight(format, x), y = unpackWeight(format, parts);
    const sizes = weightBytes(format, x.length);
    const lengths = [parts.values, parts.scales, parts.biases].map((p) => p.length);
    assert.deepEqual(lengths, [sizes.values, sizes.scales, sizes.biases], format);
    assert.ok(y.subarray(0, 128).every((v) => v === 0), `${format}: zeros`);
    const { group, bits } = isAffine(format) ? parseAffine(format) : { group: 1, bits: 0 };
    y.forEach((v, i) => {
      const part = x.subarray(i - i % group, i - i % group + group);
      const range = Math.max(...part, 0) - Math.min(...part, 0);
      // MLX moves the scale so that the larger edge is exact: the other may be off by a whole step.
      const step = bits ? range / (2 ** bits - 1) : 0;
      assert.ok(Math.abs(v - x[i]) <= 1.05 * step + 0.01 * range, `${format}: ${v}, not ${x[i]}`);
    });
  }
});

Deno.test("formats: split order of 8-bit activations uses every place once", () => {
  for (const split of [false, true]) {
    const places = Array.from({ length: 192 }, (_, i) => codeAt(i, split));
    assert.deepEqual(places.toSorted((a, b) => a - b), Array.from({ length: 192 }, (_, i) => i));
  }
  assert.deepEqual([0, 1, 2, 3, 64].map((i) => codeAt(i, true)), [0, 32, 1, 33, 64]);
});

Deno.test("formats: Philox4x32-10 gives the vectors of its authors", () => {
  const hex = (four: readonly number[]) =>
    four.map((x) => x.toString(16).padStart(8, "0")).join(" ");
  const ones = 0xffffffff;
  assert.equal(hex(philox4x32([0, 0], [0, 0, 0, 0])), "6627e8d5 e169c58d bc57ac4c 9b00dbd8");
  const all = philox4x32([ones, ones], [ones, ones, ones, ones]);
  assert.equal(hex(all), "408f276d 41c83b0e a20bc7c6 6d5451fd");
  const pi = philox4x32([0xa4093822, 0x299f31d0], [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]);
  assert.equal(hex(pi), "d16cfe09 94fdcceb 5001e420 24126ea1");
});
