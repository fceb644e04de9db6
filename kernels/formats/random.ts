/**
 * Random weights from a counter hash: word i of a stream depends on the seed and on i alone, so any part of a
 * tensor can be made by itself, by a kernel or here, with the same bits. Owns the hash and what affine
 * weights are made of; the reference of random_affine, and the source of everything that the host makes.
 */
import { type AffineFormat, parseAffine, type WeightParts } from "./affine.ts";
import { bf16ToNumber, f16ToNumber, numberToBf16, numberToF16 } from "./float.ts";

/** Sets scales apart from codes: the seeds of the two streams differ in this. */
const SCALE_STREAM = 0x5ca1ab1e;

function mix(x: number): number {
  x ^= x >>> 16;
  x = Math.imul(x, 0x7feb352d);
  x ^= x >>> 15;
  x = Math.imul(x, 0x846ca68b);
  return x ^ (x >>> 16);
}

/** Word `i` of the stream of a seed, as an unsigned 32-bit number. */
export function randomWord(seedLo: number, seedHi: number, i: number): number {
  return mix(mix(i ^ seedLo) + seedHi | 0) >>> 0;
}

/** Uniform in [0, 1), with 24 bits. */
export function randomUnit(seedLo: number, seedHi: number, i: number): number {
  return (randomWord(seedLo, seedHi, i) >>> 8) * 2 ** -24;
}

/** Words first.. of a stream: codes of an affine weight, eight of 4 bits or four of 8 in each. */
export function fillRandomWords(
  seedLo: number,
  seedHi: number,
  first: number,
  out: Uint32Array,
): void {
  for (let i = 0; i < out.length; i++) out[i] = mix(mix((first + i) ^ seedLo) + seedHi | 0);
}

/** Scale and bias of group `g` as stored: codes are centred, sizes vary by a quarter, half are negative. */
export function randomScale(
  format: AffineFormat,
  seedLo: number,
  seedHi: number,
  step: number,
  g: number,
): { readonly scale: number; readonly bias: number } {
  const { bits, scale: type } = parseAffine(format);
  const put = type === "f16" ? numberToF16 : numberToBf16;
  const get = type === "f16" ? f16ToNumber : bf16ToNumber;
  const r = randomWord(seedLo, (seedHi ^ SCALE_STREAM) | 0, g);
  const size = Math.fround(step * Math.fround(0.75 + (r >>> 8) * 2 ** -25));
  const scale = put(r & 1 ? size : -size);
  return { scale, bias: put(-get(scale) * ((2 ** bits - 1) / 2)) };
}

/** The step by which products of random weights keep the size of their input of `width` values. */
export function unitStep(bits: 4 | 8, width: number): number {
  // Deviation of uniform codes, and the mean square of 0.75..1.25.
  return Math.fround(Math.sqrt(12 / (4 ** bits - 1) / width / (1 + 1 / 48)));
}

/** A whole weight of so many elements. */
export function randomAffineParts(
  format: AffineFormat,
  elements: number,
  seedLo: number,
  seedHi: number,
  step: number,
): WeightParts {
  const { bits, group } = parseAffine(format);
  const words = new Uint32Array(elements * bits / 32);
  fillRandomWords(seedLo, seedHi, 0, words);
  const scales = new Uint16Array(elements / group), biases = new Uint16Array(elements / group);
  for (let g = 0; g < scales.length; g++) {
    const made = randomScale(format, seedLo, seedHi, step, g);
    scales[g] = made.scale;
    biases[g] = made.bias;
  }
  return {
    values: new Uint8Array(words.buffer),
    scales: new Uint8Array(scales.buffer),
    biases: new Uint8Array(biases.buffer),
  };
}
