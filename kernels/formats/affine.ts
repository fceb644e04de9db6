/**
 * Affine group quantisation as MLX stores it: value = scale * code + bias, codes unsigned, packed in
 * u32 words with the first element in the least significant bits, one scale and bias per group.
 * Owns names, sizes, packing and the f64 unpacking that references use. Dense formats are named here
 * too, because a weight is one or the other.
 */
import { bf16ToNumber, f16ToNumber, numberToBf16, numberToF16 } from "./float.ts";

export type Bits = 4 | 8;
export type Group = 16 | 32 | 64 | 128;
export type ScaleType = "f16" | "bf16";
export type DenseFormat = "f32" | "f16" | "bf16";
export type AffineFormat = `q${Bits}g${Group}_${ScaleType}`;
/** How a weight is stored: dense, or affine codes such as `q4g64_bf16`. */
export type Format = DenseFormat | AffineFormat;

export const DENSE_FORMATS: readonly DenseFormat[] = ["f32", "f16", "bf16"];
const BITS: readonly Bits[] = [4, 8];
const GROUPS: readonly Group[] = [16, 32, 64, 128];
const SCALES: readonly ScaleType[] = ["f16", "bf16"];
export const AFFINE_FORMATS: readonly AffineFormat[] = BITS.flatMap((b) =>
  GROUPS.flatMap((g) => SCALES.map((s): AffineFormat => `q${b}g${g}_${s}`))
);
/** Every weight format that a kernel may be asked for. */
export const WEIGHT_FORMATS: readonly Format[] = [...DENSE_FORMATS, ...AFFINE_FORMATS];

export interface Affine {
  readonly bits: Bits;
  readonly group: Group;
  readonly scale: ScaleType;
}

export function isAffine(format: string): format is AffineFormat {
  return /^q[48]g(16|32|64|128)_b?f16$/.test(format);
}

/** Splits `q4g64_bf16` into its parts. Throws RangeError on anything else. */
export function parseAffine(format: string): Affine {
  const m = /^q([48])g(16|32|64|128)_(b?f16)$/.exec(format);
  if (!m) throw new RangeError(`Not an affine weight format: ${format}`);
  return { bits: Number(m[1]) as Bits, group: Number(m[2]) as Group, scale: m[3] as ScaleType };
}

/** The parts of a format as sizes, for references that depend on how a weight is packed. */
export function formatSizes(format: AffineFormat): Readonly<Record<string, number>> {
  const { bits, group, scale } = parseAffine(format);
  return { bits, group, f16Scales: scale === "f16" ? 1 : 0 };
}

/** The three memory parts of a weight: values or codes, scales, biases (the last two empty when dense). */
export interface WeightParts {
  readonly values: Uint8Array<ArrayBuffer>;
  readonly scales: Uint8Array<ArrayBuffer>;
  readonly biases: Uint8Array<ArrayBuffer>;
}

/** Bytes of each part for so many elements (whole groups). */
export function weightBytes(
  format: Format,
  elements: number,
): { readonly values: number; readonly scales: number; readonly biases: number } {
  if (!isAffine(format)) {
    return { values: elements * (format === "f32" ? 4 : 2), scales: 0, biases: 0 };
  }
  const { bits, group } = parseAffine(format);
  if (elements % group) {
    throw new RangeError(`${elements} elements are no whole groups of ${group}`);
  }
  const scales = elements / group * 2;
  return { values: elements * bits / 8, scales, biases: scales };
}

const decode16 = (format: ScaleType, bits: number) =>
  format === "f16" ? f16ToNumber(bits) : bf16ToNumber(bits);
const encode16 = (format: ScaleType, value: number) =>
  format === "f16" ? numberToF16(value) : numberToBf16(value);

/** A copy, because parts may start at any byte. */
function words16(bytes: Uint8Array): Uint16Array {
  return new Uint16Array(bytes.slice().buffer);
}

/** Codes as bytes of little-endian u32 words, first element lowest. */
export function packCodes(bits: Bits, codes: ArrayLike<number>): Uint8Array<ArrayBuffer> {
  const perByte = 8 / bits;
  const out = new Uint8Array(codes.length / perByte);
  for (let i = 0; i < codes.length; i++) {
    out[Math.floor(i / perByte)] |= codes[i] << (i % perByte * bits);
  }
  return out;
}

export function unpackCodes(bits: Bits, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bits === 8) return bytes.slice();
  const out = new Uint8Array(bytes.length * 2);
  for (let i = 0; i < bytes.length; i++) {
    out[2 * i] = bytes[i] & 15;
    out[2 * i + 1] = bytes[i] >> 4;
  }
  return out;
}

/** Any weight format, widened exactly to f64. */
export function unpackWeight(format: Format, parts: WeightParts): Float64Array<ArrayBuffer> {
  if (format === "f32") return Float64Array.from(new Float32Array(parts.values.slice().buffer));
  if (!isAffine(format)) {
    return Float64Array.from(words16(parts.values), (h) => decode16(format, h));
  }
  const { bits, group, scale } = parseAffine(format);
  const codes = unpackCodes(bits, parts.values);
  const scales = words16(parts.scales);
  const biases = words16(parts.biases);
  const out = new Float64Array(codes.length);
  for (let g = 0; g * group < out.length; g++) {
    const s = decode16(scale, scales[g]);
    const b = decode16(scale, biases[g]);
    for (let i = g * group; i < (g + 1) * group; i++) out[i] = s * codes[i] + b;
  }
  return out;
}

/** Values as a weight of this format: rounded when dense, quantised by MLX's rule when affine. */
export function packWeight(format: Format, values: ArrayLike<number>): WeightParts {
  const none = () => new Uint8Array(0);
  if (isAffine(format)) return packAffine(format, values);
  const bytes = format === "f32"
    ? new Uint8Array(Float32Array.from(values).buffer)
    : new Uint8Array(Uint16Array.from(values, (v) => encode16(format, v)).buffer);
  return { values: bytes, scales: none(), biases: none() };
}

/** Nearest integer, ties to even. */
export function roundEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
}

/**
 * MLX's affine rule, in f32 as it computes. Values are first rounded to the scale type. The end of
 * the range with the larger magnitude becomes the bias and gets an exact code, zero gets one too; codes
 * are found with the unrounded scale.
 */
export function packAffine(format: AffineFormat, values: ArrayLike<number>): WeightParts {
  const { bits, group, scale: type } = parseAffine(format);
  const f32 = Math.fround;
  const top = 2 ** bits - 1;
  const x = Float32Array.from(values, (v) => decode16(type, encode16(type, v)));
  const codes = new Uint8Array(x.length);
  const scales = new Uint16Array(x.length / group);
  const biases = new Uint16Array(x.length / group);
  for (let g = 0; g < scales.length; g++) {
    const part = x.subarray(g * group, (g + 1) * group);
    const low = part.reduce((a, v) => Math.min(a, v));
    const high = part.reduce((a, v) => Math.max(a, v));
    const lowEdge = Math.abs(low) > Math.abs(high);
    const step = Math.max(f32(f32(high - low) / top), f32(1e-7));
    let scale = lowEdge ? step : -step;
    const edge = lowEdge ? low : high;
    const edgeCode = roundEven(f32(edge / scale));
    if (edgeCode !== 0) scale = f32(edge / edgeCode);
    const bias = edgeCode !== 0 ? edge : 0;
    for (let i = 0; i < group; i++) {
      const code = roundEven(f32(f32(part[i] - bias) / scale));
      codes[g * group + i] = Math.min(Math.max(code, 0), top);
    }
    scales[g] = encode16(type, scale);
    biases[g] = encode16(type, bias);
  }
  return {
    values: packCodes(bits, codes),
    scales: new Uint8Array(scales.buffer),
    biases: new Uint8Array(biases.buffer),
  };
}
