/**
 * Arithmetic about a model, with no checkpoint at hand: parameters, bytes per decoded token, FLOPs per
 * prefilled token, memory. State sizes are those that this project stores (GDN and convolution states
 * in f32), formats are those that the caller gives.
 */
import { type AffineFormat, type Format, weightBytes } from "../../kernels/formats/affine.ts";
import { q8RowBytes } from "../../kernels/formats/q8.ts";
import type { KvType } from "../../kernels/models/forward.ts";
import type { ModelConfig } from "../../kernels/models/qwen35_config.ts";
import { convChannels, weightList, type WeightSpec } from "../../kernels/models/qwen35_weights.ts";

/** Format of each weight as kernels see it. */
export type FormatOf = (w: WeightSpec) => Format;

/** What one decoded token reads of one part of the model. */
export interface DecodePart {
  readonly part: string;
  readonly weights: number;
  readonly bytes: number;
}

export interface ModelFacts {
  readonly parametersTotal: number;
  /** Weights that one token multiplies with, output head included. */
  readonly parametersActive: number;
  /** Of the MTP head that the config announces. */
  readonly parametersDraft: number;
  readonly weightBytes: number;
  readonly decode: {
    readonly parts: readonly DecodePart[];
    readonly weightBytes: number;
    /** Read and written once per token. */
    readonly stateBytes: number;
    readonly kvBytesPerToken: number;
  };
  readonly prefill: {
    /** Products per token, without the output head. */
    readonly matmulFlops: number;
    readonly headFlops: number;
    readonly gdnRecurrentFlops: number;
    readonly gdnChunkFlops: number;
    /** Per token and visible key. */
    readonly attentionFlopsPerKey: number;
  };
}

const PARTS: readonly (readonly [RegExp, string])[] = [
  [/\.gdn\.(qkv|z|b|a|out)$/, "GDN mixers"],
  [/\.attn\.[qkvo]$/, "attention mixers"],
  [/\.mlp\./, "FFN"],
  [/\.moe\.experts/, "routed experts"],
  [/\.moe\.shared.*Proj$/, "shared expert"],
  [/\.moe\.(router|sharedGate)$/, "router and shared gate"],
  [/^lmHead$/, "output head"],
  [/^embed$/, "embedding row"],
];

/** What MLX's converter would make of a model: every matrix of whole groups in affine codes. */
export function mlxFormat(bits: 4 | 8): FormatOf {
  return (w) => {
    if (w.role === "vector" || w.role === "conv") return "f32";
    if (w.shape[w.shape.length - 1] % 64) return "bf16";
    const own = /\.moe\.(router|sharedGate)$/.test(w.name) ? 8 : bits;
    return `q${own}g64_bf16` satisfies AffineFormat;
  };
}

export function modelFacts(c: ModelConfig, formatOf: FormatOf, kv: KvType = "f16"): ModelFacts {
  const list = weightList(c);
  const parts = new Map<string, { part: string; weights: number; bytes: number }>();
  const add = (part: string, weights: number, bytes: number) => {
    const sum = parts.get(part) ?? { part, weights: 0, bytes: 0 };
    parts.set(part, { part, weights: sum.weights + weights, bytes: sum.bytes + bytes });
  };
  for (const w of list) {
    const part = PARTS.find(([test]) => test.test(w.name))?.[1] ?? "norms, convolution, decay";
    const read = part === "embedding row" ? c.hidden : active(c, w);
    add(part, read, bytesOf(formatOf(w), read));
    if (c.tied && w.name === "embed") {
      add("output head", elements(w), bytesOf(formatOf(w), elements(w)));
    }
  }
  const decodeParts = [...parts.values()];
  const sumOf = (key: "weights" | "bytes") => decodeParts.reduce((sum, p) => sum + p[key], 0);
  const row = parts.get("embedding row")!.weights, head = parts.get("output head")!.weights;
  const small = parts.get("norms, convolution, decay")!.weights;
  return {
    parametersTotal: list.reduce((sum, w) => sum + elements(w), 0),
    parametersActive: sumOf("weights") - row,
    parametersDraft: draftParameters(c),
    weightBytes: list.reduce((sum, w) => sum + bytesOf(formatOf(w), elements(w)), 0),
    decode: {
      parts: decodeParts,
      weightBytes: sumOf("bytes"),
      stateBytes: 2 * stateBytes(c),
      kvBytesPerToken: kvBytesPerToken(c, kv),
    },
    prefill: {
      matmulFlops: 2 * (sumOf("weights") - row - head - small),
      headFlops: 2 * head,
      ...gdnFlops(c),
      attentionFlopsPerKey: count(c, "attention") * c.qHeads * c.headDim * 4,
    },
  };
}

/** Bytes that one token moves with so many tokens before it. */
export function decodeBytesAt(facts: ModelFacts, context: number): number {
  const { weightBytes, stateBytes, kvBytesPerToken } = facts.decode;
  return weightBytes + stateBytes + kvBytesPerToken * context;
}

function elements(w: WeightSpec): number {
  return w.shape.reduce((a, b) => a * b, 1);
}

/** Weights of one tensor that a token multiplies with. */
function active(c: ModelConfig, w: WeightSpec): number {
  return w.role === "experts" ? elements(w) / c.experts * c.topK : elements(w);
}

function bytesOf(format: Format, n: number): number {
  const { values, scales, biases } = weightBytes(format, n);
  return values + scales + biases;
}

function count(c: ModelConfig, kind: "gdn" | "attention"): number {
  return c.layerKinds.filter((k) => k === kind).length;
}

/** Bytes of all recurrent states of one sequence: GDN matrices and the last rows before the convolution. */
export function stateBytes(c: ModelConfig): number {
  const matrix = c.vHeads * c.gdnHeadDim ** 2, rows = (c.convTaps - 1) * convChannels(c);
  return count(c, "gdn") * (matrix + rows) * 4;
}

export function kvBytesPerToken(c: ModelConfig, kv: KvType): number {
  const row = kv === "q8" ? q8RowBytes(c.headDim) : c.headDim * (kv === "f32" ? 4 : 2);
  return count(c, "attention") * 2 * c.kvHeads * row;
}

/** Fc, three norms and one attention layer of the trunk's FFN kind for each MTP layer. */
function draftParameters(c: ModelConfig): number {
  if (c.mtpLayers === 0) return 0;
  const one = weightList({ ...c, layers: 1, layerKinds: ["attention"], tied: true });
  const layer = one.filter((w) => w.name.startsWith("layers.")).reduce(
    (n, w) => n + elements(w),
    0,
  );
  return 2 * c.hidden ** 2 + 3 * c.hidden + c.mtpLayers * layer;
}

/** Tokens that the chunked form takes at a time. */
const CHUNK = 64;

function gdnFlops(c: ModelConfig) {
  const heads = count(c, "gdn") * c.vHeads, d = c.gdnHeadDim;
  // K K^T, Q K^T and (Q K^T) V; W S, Q S and K^T V; the triangular solve for U and W.
  const inside = 2 * d * 3 * CHUNK, carried = 2 * d * d * 3, solve = 4 / 3 * d * CHUNK;
  return {
    gdnRecurrentFlops: heads * d * d * 8,
    gdnChunkFlops: heads * (inside + carried + solve),
  };
}

export interface MemoryForecast {
  /** Used where they lie in the checkpoint's files. */
  readonly weightsMapped: number;
  readonly weightsCopied: number;
  readonly kv: number;
  readonly state: number;
  readonly scratch: number;
  readonly total: number;
}

export interface MemorySettings {
  readonly ctx: number;
  readonly kv: KvType;
  readonly scratchBytes: number;
  /** Copies of the recurrent states: 2 where drafts are verified. */
  readonly stateSlots?: number;
}

export function memoryForecast(
  c: ModelConfig,
  load: { readonly mapped: number; readonly copied: number },
  { ctx, kv, scratchBytes, stateSlots = 1 }: MemorySettings,
): MemoryForecast {
  const parts = {
    weightsMapped: load.mapped,
    weightsCopied: load.copied,
    kv: kvBytesPerToken(c, kv) * ctx,
    state: stateBytes(c) * stateSlots,
    scratch: scratchBytes,
  };
  return { ...parts, total: Object.values(parts).reduce((a, b) => a + b, 0) };
}

/** Rough size of what one pass over `rows` tokens keeps at a time, before a tape is planned. */
export function scratchGuess(c: ModelConfig, rows: number): number {
  const attention = 2 * c.qHeads * c.headDim + 2 * c.kvHeads * c.headDim;
  const gdn = convChannels(c) + c.vHeads * (c.gdnHeadDim + 2);
  const ffn = c.moe ? c.topK * (2 * c.expertFfn + c.hidden) : 3 * c.ffn;
  return rows * 4 * (3 * c.hidden + 2 * Math.max(attention, gdn, ffn)) + 2 * 4 * c.vocab;
}
