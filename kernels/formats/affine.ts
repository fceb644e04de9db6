/**
 * Affine group quantisation as MLX stores it: value = scale * code + bias, codes unsigned, packed in
 * u32 words with the first element in the least significant bits, one scale and bias per group.
 * Owns names, sizes, packing and the f64 unpacking that references use. Dense formats are named here
 * too, because a weight is one or the other.
 */

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
