/**
 * Tensors as the bytes that a kernel reads beside the numbers that a reference reads: seeded random
 * inputs, poisoned outputs, and decoding of what a kernel wrote.
 */
import type { DType, Format, RefArray } from "../../kernels/define.ts";
import { isAffine, parseAffine, unpackWeight } from "../../kernels/formats/affine.ts";
import {
  bf16ToNumber,
  f16ToNumber,
  numberToBf16,
  numberToF16,
} from "../../kernels/formats/float.ts";
import { packQ8, unpackQ8 } from "../../kernels/formats/q8.ts";
import { partBytes } from "../../ffi/tape/tape.ts";
import { normal, type Random } from "../random.ts";
import type { OpCase } from "./op_case.ts";

/** One part, or the three of an affine weight. */
export type Parts = readonly Uint8Array<ArrayBuffer>[];

export interface TensorData {
  readonly parts: Parts;
  readonly values: RefArray;
}

export function shapeOf(c: OpCase, key: string): number[] {
  return c.op.tensors[key].axes.map((a) => c.sizes[a]);
}

export function elements(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

const bytesOf = (a: ArrayBufferView<ArrayBuffer>) =>
  new Uint8Array(a.buffer, a.byteOffset, a.byteLength);

/** Numbers in the bytes of a dense dtype, rounded as a store would. */
export function encodeValues(
  dtype: DType,
  shape: readonly number[],
  values: ArrayLike<number>,
): Uint8Array<ArrayBuffer> {
  switch (dtype) {
    case "f32":
      return bytesOf(Float32Array.from(values));
    case "f16":
      return bytesOf(Uint16Array.from(values, numberToF16));
    case "bf16":
      return bytesOf(Uint16Array.from(values, numberToBf16));
    case "u32":
      return bytesOf(Uint32Array.from(values));
    case "i8":
      return bytesOf(Int8Array.from(values));
    case "q8":
      return packQ8(values, shape[shape.length - 1]);
  }
}

/** What the bytes stand for, exactly. */
export function decodeParts(
  dtype: DType | Format,
  shape: readonly number[],
  parts: Parts,
): RefArray {
  if (isAffine(dtype)) {
    return unpackWeight(dtype, { values: parts[0], scales: parts[1], biases: parts[2] });
  }
  const buffer = parts[0].slice().buffer;
  switch (dtype as DType) {
    case "f32":
      return Float64Array.from(new Float32Array(buffer));
    case "f16":
      return Float64Array.from(new Uint16Array(buffer), f16ToNumber);
    case "bf16":
      return Float64Array.from(new Uint16Array(buffer), bf16ToNumber);
    case "u32":
      return new Uint32Array(buffer);
    case "i8":
      return Float64Array.from(new Int8Array(buffer));
    case "q8":
      return unpackQ8(parts[0], shape[shape.length - 1]);
  }
}

/** Any codes; scales of both signs and biases that give values of about the size 1 / sqrt(inDim). */
function randomAffine(dtype: string, shape: readonly number[], random: Random): Parts {
  const { bits, group, scale } = parseAffine(dtype);
  const n = elements(shape), size = 1 / Math.sqrt(shape[shape.length - 1]);
  const encode = scale === "f16" ? numberToF16 : numberToBf16;
  const codes = Uint8Array.from({ length: n * bits / 8 }, () => Math.floor(random() * 256));
  const scales = new Uint16Array(n / group), biases = new Uint16Array(n / group);
  const top = 2 ** bits - 1;
  for (let g = 0; g < scales.length; g++) {
    const s = (0.5 + random()) * (random() < 0.5 ? -1 : 1) * size * 3.5 / top;
    scales[g] = encode(s);
    biases[g] = encode(-s * top / 2 + (random() - 0.5) * size);
  }
  return [codes, bytesOf(scales), bytesOf(biases)];
}

/** The input of one tensor: by the op's `fill`, else random normals. */
export function randomData(c: OpCase, key: string, random: Random): TensorData {
  const spec = c.op.tensors[key], dtype = c.dtypes[key], shape = shapeOf(c, key);
  const fill = c.op.fill?.[key];
  let parts: Parts;
  if (isAffine(dtype)) parts = randomAffine(dtype, shape, random);
  else {
    const size = spec.weight ? 1 / Math.sqrt(shape[shape.length - 1]) : 1;
    const values = fill
      ? fill(c.sizes, random)
      : Float64Array.from({ length: elements(shape) }, () => size * normal(random));
    if (values.length !== elements(shape)) {
      throw new Error(`${c.label}: fill gives ${values.length} values for ${key} [${shape}]`);
    }
    parts = [encodeValues(dtype as DType, shape, values)];
  }
  return { parts, values: decodeParts(dtype, shape, parts) };
}

/** Every byte of these patterns survives only where a kernel did not write; floats read as NaN. */
const POISON: Record<string, readonly number[]> = {
  f32: [0xad, 0xde, 0xc0, 0x7f],
  f16: [0x5a, 0x7e],
  bf16: [0xda, 0x7f],
  u32: [0xa5, 0xa5, 0xa5, 0xa5],
  i8: [0x5a],
  q8: [0x7e],
};

/** A poisoned output. In the reference's array NaN marks what it does not write (u32: the poison itself). */
export function poisonData(dtype: DType | Format, shape: readonly number[]): TensorData {
  const pattern = POISON[dtype] ?? [0xff];
  const names = isAffine(dtype) ? ["values", "scales", "biases"] as const : ["values"] as const;
  const parts = names.map((part) =>
    Uint8Array.from(
      { length: partBytes(dtype, shape, part) },
      (_, i) => pattern[i % pattern.length],
    )
  );
  const values = dtype === "u32"
    ? new Uint32Array(parts[0].slice().buffer)
    : new Float64Array(elements(shape)).fill(NaN);
  return { parts, values };
}
