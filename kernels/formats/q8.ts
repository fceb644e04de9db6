/**
 * The 8-bit row of the KV cache: `headDim` int8 codes, then one f16 scale per group of 32 codes;
 * value = scale * code, scale = f16(max|x| / 127), code = round-to-nearest-even(x / scale).
 */
import { roundEven } from "./affine.ts";
import { f16ToNumber, numberToF16 } from "./float.ts";

export const Q8_GROUP = 32;

/** Bytes of one row of `headDim` values. */
export function q8RowBytes(headDim: number): number {
  return headDim + (headDim / Q8_GROUP) * 2;
}

/** Scale and codes of one group of 32 values. */
export function quantizeQ8(
  values: ArrayLike<number>,
  at: number,
): { scale: number; codes: Int8Array } {
  let max = 0;
  for (let i = 0; i < Q8_GROUP; i++) max = Math.max(max, Math.abs(Math.fround(values[at + i])));
  const scale = f16ToNumber(numberToF16(Math.fround(max / 127)));
  const inverse = scale > 0 ? Math.fround(1 / scale) : 0;
  const codes = Int8Array.from({ length: Q8_GROUP }, (_, i) => {
    const code = roundEven(Math.fround(Math.fround(values[at + i]) * inverse));
    return Math.max(-127, Math.min(127, code));
  });
  return { scale, codes };
}

/** Replaces rows of whole groups by what the cache would give back. NaN groups stay as they are. */
export function roundQ8(values: Float64Array): void {
  for (let at = 0; at < values.length; at += Q8_GROUP) {
    if (Number.isNaN(values[at])) continue;
    const { scale, codes } = quantizeQ8(values, at);
    for (let i = 0; i < Q8_GROUP; i++) values[at + i] = scale * codes[i];
  }
}

/** Encodes rows of `headDim` values as the cache's bytes. */
export function packQ8(values: ArrayLike<number>, headDim: number): Uint8Array<ArrayBuffer> {
  const rows = values.length / headDim, rowBytes = q8RowBytes(headDim);
  const out = new Uint8Array(rows * rowBytes), view = new DataView(out.buffer);
  for (let r = 0; r < rows; r++) {
    for (let g = 0; g < headDim / Q8_GROUP; g++) {
      const { scale, codes } = quantizeQ8(values, r * headDim + g * Q8_GROUP);
      out.set(new Uint8Array(codes.buffer), r * rowBytes + g * Q8_GROUP);
      view.setUint16(r * rowBytes + headDim + 2 * g, numberToF16(scale), true);
    }
  }
  return out;
}

/** The values that the cache's bytes stand for. */
export function unpackQ8(bytes: Uint8Array<ArrayBuffer>, headDim: number): Float64Array {
  const rowBytes = q8RowBytes(headDim), rows = bytes.length / rowBytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float64Array(rows * headDim);
  for (let r = 0; r < rows; r++) {
    for (let d = 0; d < headDim; d++) {
      const scale = f16ToNumber(view.getUint16(r * rowBytes + headDim + 2 * (d >> 5), true));
      out[r * headDim + d] = scale * view.getInt8(r * rowBytes + d);
    }
  }
  return out;
}
