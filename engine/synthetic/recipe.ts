/**
 * What each weight of a synthetic model is made of: a seed and a step for matrices, values for what is
 * small. Scales are such that every product keeps the size of its input, so activations stay finite and
 * logits have a deviation of about one. Owns the values; allocates and writes nothing.
 */
import {
  type AffineFormat,
  type DenseFormat,
  isAffine,
  parseAffine,
  type WeightParts,
} from "../../kernels/formats/affine.ts";
import {
  bf16ToNumber,
  f16ToNumber,
  numberToBf16,
  numberToF16,
} from "../../kernels/formats/float.ts";
import {
  randomAffineParts,
  randomUnit,
  randomWord,
  unitStep,
} from "../../kernels/formats/random.ts";
import type { ModelConfig } from "../../kernels/models/qwen35_config.ts";
import type { WeightSpec } from "../../kernels/models/qwen35_weights.ts";
import { mlxFormat } from "../checkpoint/facts.ts";
import type { Hashed } from "./hashed.ts";

/**
 * How often experts are chosen. `model`: a router as random as everything else. `uniform`: all its rows
 * equally long, so no expert is favoured beforehand. `zipf`: rows so long that expert of rank r is
 * chosen in proportion to 1 / r, ranks shuffled in each layer.
 */
export type Routing = "model" | "uniform" | "zipf";
export const ROUTINGS: readonly Routing[] = ["model", "uniform", "zipf"];

export interface RecipeOptions {
  readonly seed: number;
  readonly bits: 4 | 8;
  readonly routing: Routing;
}

export type Recipe =
  /** Made anywhere by the counter hash. */
  | (Hashed & { readonly kind: "hashed" })
  /** Affine parts made here: routers that favour experts. */
  | { readonly kind: "parts"; readonly format: AffineFormat; readonly make: () => WeightParts }
  /** Small vectors; `stored` is what a checkpoint holds, from which the loader computes `values`. */
  | {
    readonly kind: "vector";
    readonly format: "f32";
    readonly stored: () => Float32Array<ArrayBuffer>;
    readonly values: () => Float32Array<ArrayBuffer>;
  }
  /** Matrices whose rows are no whole groups. */
  | {
    readonly kind: "matrix";
    readonly format: DenseFormat;
    readonly values: () => Float32Array<ArrayBuffer>;
  };

/** Seeds of one weight: by its name, so that a model of fewer layers has the same first ones. */
function seedsOf(seed: number, name: string): { readonly seedLo: number; readonly seedHi: number } {
  let h = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 0x01000193);
  const lo = seed >>> 0, hi = Math.floor(seed / 2 ** 32) >>> 0;
  return { seedLo: randomWord(lo, h | 0, hi), seedHi: randomWord(h | 0, lo | 0, hi ^ 1) };
}

export function recipeOf(c: ModelConfig, w: WeightSpec, options: RecipeOptions): Recipe {
  const format = mlxFormat(options.bits)(w);
  const seeds = seedsOf(options.seed, w.name);
  const width = w.shape[w.shape.length - 1];
  if (isAffine(format)) {
    const step = unitStep(parseAffine(format).bits, width);
    if (w.name.endsWith(".moe.router") && options.routing !== "model") {
      const factors = rowFactors(c, options.routing, seeds.seedLo);
      const make = () => routerParts(format, factors, width, { ...seeds, step });
      return { kind: "parts", format, make };
    }
    return { kind: "hashed", format, ...seeds, step };
  }
  const draw = (from: (u: number) => number) => () =>
    Float32Array.from(
      { length: w.shape.reduce((a, b) => a * b, 1) },
      (_, i) => bf16ToNumber(numberToBf16(from(randomUnit(seeds.seedLo, seeds.seedHi, i)))),
    );
  if (w.role !== "vector" && w.role !== "conv") {
    return { kind: "matrix", format, values: draw((u) => (2 * u - 1) * Math.sqrt(3 / width)) };
  }
  const stored = draw(vectorRule(w));
  const values = w.name.endsWith(".negA") ? () => stored().map((v) => -Math.exp(v)) : stored;
  return { kind: "vector", format: "f32", stored, values };
}

/** Ranges that trained models have, from a uniform number. */
function vectorRule(w: WeightSpec): (u: number) => number {
  // A_log, and the inverse of softplus for time steps from 0.001 to 0.1.
  if (w.name.endsWith(".negA")) return (u) => Math.log(1 + 15 * u);
  if (w.name.endsWith(".dtBias")) return (u) => Math.log(Math.expm1(1e-3 * 100 ** u));
  if (w.role === "conv") return (u) => 1.6 * (u - 0.5);
  return (u) => 0.8 + 0.4 * u;
}

/** Length of each router row relative to the usual one. */
function rowFactors(c: ModelConfig, routing: "uniform" | "zipf", seed: number): Float64Array {
  const factors = new Float64Array(c.experts).fill(1);
  if (routing === "uniform") return factors;
  const shares = zipfShares(c.experts, c.topK);
  const order = Array.from({ length: c.experts }, (_, e) => e)
    .sort((a, b) => randomWord(seed, 3, a) - randomWord(seed, 3, b) || a - b);
  // A row of length s gives logits of deviation s; it is chosen where they pass the threshold t.
  // With t = 1 the share p needs s = 1 / z(1 - p); the usual length stays that of the mean share.
  const usual = upperQuantile(Math.min(0.45, c.topK / c.experts));
  order.forEach((e, rank) => factors[e] = usual / upperQuantile(shares[rank]));
  return factors;
}

/** Chances in proportion to 1 / rank that sum to topK, none above 0.45. */
export function zipfShares(experts: number, topK: number): number[] {
  const most = Math.max(0.45, topK / experts);
  const at = (c: number) => Array.from({ length: experts }, (_, r) => Math.min(most, c / (r + 1)));
  let low = 0, high = experts * experts;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (at(middle).reduce((a, b) => a + b) < topK) low = middle;
    else high = middle;
  }
  return at(high);
}

/** z with P(N(0,1) > z) = p, by bisection of the normal tail. */
function upperQuantile(p: number): number {
  let low = 1e-3, high = 12;
  for (let i = 0; i < 50; i++) {
    const z = (low + high) / 2;
    if (normalTail(z) > p) low = z;
    else high = z;
  }
  return (low + high) / 2;
}

/** P(N(0,1) > z) for z >= 0: Abramowitz and Stegun 26.2.17. */
function normalTail(z: number): number {
  const t = 1 / (1 + 0.2316419 * z);
  const c = [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153];
  return Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI) * c.reduce((sum, a) => (sum + a) * t, 0);
}

function routerParts(
  format: AffineFormat,
  factors: Float64Array,
  width: number,
  { seedLo, seedHi, step }: { seedLo: number; seedHi: number; step: number },
): WeightParts {
  const { bits, group, scale: type } = parseAffine(format);
  const put = type === "f16" ? numberToF16 : numberToBf16;
  const get = type === "f16" ? f16ToNumber : bf16ToNumber;
  const { values } = randomAffineParts(format, factors.length * width, seedLo, seedHi, step);
  const perRow = width / group;
  const scales = new Uint16Array(factors.length * perRow), biases = new Uint16Array(scales.length);
  for (let g = 0; g < scales.length; g++) {
    scales[g] = put(step * factors[Math.floor(g / perRow)]);
    biases[g] = put(-get(scales[g]) * ((2 ** bits - 1) / 2));
  }
  return {
    values,
    scales: new Uint8Array(scales.buffer),
    biases: new Uint8Array(biases.buffer),
  };
}
