/**
 * Activations as int8 for dot products with affine codes: value = scale * code, one f32 scale per 32
 * elements, and per 32 the sum of the values, which the bias of an affine weight multiplies.
 * Owns the order of the codes and example values for parity cases.
 */
import type { Simt } from "../define.ts";

/** Why the ops on these activations have no .metal kernel. */
export const ACT8_ON_CPU_ONLY: Simt = {
  none: "8-bit activations are the CPU player's way to its integer dot products",
};

/** Elements that share a scale. */
export const ACT_GROUP = 32;

/**
 * Where the code of element i is stored. Split order puts, inside each 64, the even elements before the
 * odd ones: that is how `word & 0x0f0f0f0f` and `word >> 4 & 0x0f0f0f0f` give the codes of 4-bit weights.
 */
export function codeAt(i: number, split: boolean): number {
  const j = i & 63;
  return split ? i - j + ((j & 1) << 5) + (j >> 1) : i;
}

/** 4-bit weights take split codes, 8-bit weights take them in order. */
export function isSplit(bits: number): boolean {
  return bits === 4;
}

/** The values that codes and scales stand for, in element order; dim is a multiple of 64 when split. */
export function unpackAct8(
  codes: ArrayLike<number>,
  scales: ArrayLike<number>,
  rows: number,
  dim: number,
  split: boolean,
): Float64Array<ArrayBuffer> {
  const out = new Float64Array(rows * dim);
  for (let r = 0; r < rows; r++) {
    for (let i = 0; i < dim; i++) {
      const scale = scales[r * (dim / ACT_GROUP) + Math.floor(i / ACT_GROUP)];
      out[r * dim + i] = codes[r * dim + codeAt(i, split)] * scale;
    }
  }
  return out;
}

/** Example codes, -127..127, for parity cases: fixed, because codes, scales and sums must agree. */
export function exampleCodes(rows: number, dim: number): Float64Array {
  return Float64Array.from(
    { length: rows * dim },
    (_, i) => (Math.imul(i + 1, 0x9e3779b1) >>> 15) % 255 - 127,
  );
}

export function exampleScales(rows: number, dim: number): Float64Array {
  return Float64Array.from(
    { length: rows * dim / ACT_GROUP },
    (_, g) => Math.fround((1 + Math.imul(g + 1, 0x85ebca6b) % 97 / 128) / 64),
  );
}

export function exampleSums(rows: number, dim: number, split: boolean): Float64Array {
  const x = unpackAct8(exampleCodes(rows, dim), exampleScales(rows, dim), rows, dim, split);
  const sums = new Float64Array(rows * dim / ACT_GROUP);
  for (let i = 0; i < x.length; i++) sums[Math.floor(i / ACT_GROUP)] += x[i];
  return sums;
}
