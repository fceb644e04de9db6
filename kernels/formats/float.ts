/** 16-bit floats: exact widening to f64 and round-to-nearest-even narrowing, for references and tests. */

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

export function bf16ToNumber(bits: number): number {
  u32[0] = bits << 16;
  return f32[0];
}

export function numberToBf16(value: number): number {
  f32[0] = value;
  if (Number.isNaN(value)) return 0x7fc0;
  const u = u32[0];
  return ((u + 0x7fff + ((u >>> 16) & 1)) >>> 16) & 0xffff;
}

export function f16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Nearest f16, ties to even, from the f32 nearest to `value` (as kernels convert). */
export function numberToF16(value: number): number {
  f32[0] = value;
  const u = u32[0];
  const sign = (u >>> 16) & 0x8000;
  const abs = u & 0x7fffffff;
  if (abs > 0x7f800000) return sign | 0x7e00;
  if (abs >= 0x47800000) return sign | 0x7c00;
  if (abs < 0x38800000) {
    // Below the smallest normal: let the f32 adder round at the subnormal spacing 2^-24.
    f32[0] = Math.abs(f32[0]) * 2 ** 24;
    const scaled = f32[0];
    const floor = Math.floor(scaled);
    const rest = scaled - floor;
    const up = rest > 0.5 || (rest === 0.5 && floor % 2 === 1);
    return sign | (floor + (up ? 1 : 0));
  }
  const rounded = abs - 0x38000000 + 0xfff + ((abs >>> 13) & 1);
  return sign | (rounded >>> 13);
}
