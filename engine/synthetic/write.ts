/**
 * A synthetic model as a checkpoint in the layout of MLX's converter, streamed to disk in shards: the same
 * bytes that load.ts makes on a device, so both give the same output. Needs no device and little memory.
 */
import { join } from "node:path";
import { type AffineFormat, packWeight, parseAffine } from "../../kernels/formats/affine.ts";
import { numberToBf16 } from "../../kernels/formats/float.ts";
import { fillRandomWords, randomScale } from "../../kernels/formats/random.ts";
import { weightList, type WeightSpec } from "../../kernels/models/qwen35_weights.ts";
import type { Progress } from "../api_types.ts";
import { storedName } from "../checkpoint/names.ts";
import {
  tensorBytes,
  type TensorToWrite,
  writeSafetensors,
} from "../checkpoint/safetensors_write.ts";
import type { SyntheticModel } from "./load.ts";
import { type Recipe, recipeOf } from "./recipe.ts";

/** As published checkpoints are cut. */
const SHARD_BYTES = 5e9;
const PIECE_WORDS = 1 << 18;
const PIECE_GROUPS = 1 << 16;

export interface WriteOptions {
  readonly onProgress?: (p: Progress) => void;
  readonly shardBytes?: number;
}

/** Writes config.json and the tensors into a folder; returns how many bytes of tensors there are. */
export async function writeCheckpoint(
  folder: string,
  model: SyntheticModel,
  { onProgress, shardBytes = SHARD_BYTES }: WriteOptions = {},
): Promise<number> {
  const { config, options, json } = model;
  const rules: Record<string, unknown> = { group_size: 64, bits: options.bits, mode: "affine" };
  const tensors = weightList(config).flatMap((w) => {
    const path = mlxPath(w.name), recipe = recipeOf(config, w, options);
    const own = /^q(\d)/.exec(recipe.format)?.[1];
    if (own && Number(own) !== options.bits) rules[path] = { group_size: 64, bits: Number(own) };
    return tensorsOf(w, path, recipe);
  });
  const total = tensors.reduce((sum, t) => sum + tensorBytes(t), 0);
  await Deno.mkdir(folder, { recursive: true });
  let done = 0;
  const shards = cut(tensors, shardBytes), map: Record<string, string> = {};
  for (const [i, shard] of shards.entries()) {
    const name = shards.length === 1 ? "model.safetensors" : shardName(i + 1, shards.length);
    for (const t of shard) map[t.name] = name;
    await writeSafetensors(join(folder, name), shard, { format: "mlx" }, (bytes) => {
      done += bytes;
      onProgress?.({ stage: "writing weights", done, total, unit: "bytes" });
    });
  }
  if (shards.length > 1) {
    const index = { metadata: { total_size: total }, weight_map: map };
    await writeJson(join(folder, "model.safetensors.index.json"), index);
  }
  // Last, so that a folder that was not finished is no checkpoint.
  await writeJson(join(folder, "config.json"), { ...json, quantization: rules });
  return total;
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, JSON.stringify(value, null, 2) + "\n");
}

function shardName(i: number, n: number): string {
  const five = (x: number) => String(x).padStart(5, "0");
  return `model-${five(i)}-of-${five(n)}.safetensors`;
}

function cut(tensors: readonly TensorToWrite[], most: number): TensorToWrite[][] {
  const shards: TensorToWrite[][] = [[]];
  let bytes = 0;
  for (const t of tensors) {
    if (bytes > 0 && bytes + tensorBytes(t) > most) {
      shards.push([]);
      bytes = 0;
    }
    shards[shards.length - 1].push(t);
    bytes += tensorBytes(t);
  }
  return shards;
}

/** Name without `.weight`, as MLX has it: experts apart, everything under language_model. */
function mlxPath(name: string): string {
  const experts = /^(layers\.\d+\.)moe\.experts(Gate|Up|Down)$/.exec(name);
  if (experts) {
    return `language_model.model.${experts[1]}mlp.switch_mlp.${experts[2].toLowerCase()}_proj`;
  }
  return storedName(name, ["language_model.model.embed_tokens.weight"]).replace(/\.weight$/, "");
}

function tensorsOf(w: WeightSpec, path: string, recipe: Recipe): TensorToWrite[] {
  if (recipe.kind === "hashed" || recipe.kind === "parts") return affine(w, path, recipe);
  const bytes = (values: Float32Array) => [packWeight("bf16", values).values];
  if (recipe.kind === "matrix") {
    const data = () => bytes(recipe.values());
    return [{ name: `${path}.weight`, dtype: "BF16", shape: w.shape, data }];
  }
  const shape = w.role === "conv" ? [...w.shape, 1] : w.shape;
  const bare = w.name.endsWith(".negA") || w.name.endsWith(".dtBias");
  const name = bare ? path : `${path}.weight`;
  const toBf16 = (v: Float32Array) => Uint16Array.from(v, numberToBf16);
  return [{
    name,
    dtype: "BF16",
    shape,
    data: () => [new Uint8Array(toBf16(recipe.stored()).buffer)],
  }];
}

function affine(
  w: WeightSpec,
  path: string,
  recipe: Recipe & { readonly kind: "hashed" | "parts" },
): TensorToWrite[] {
  const { bits, group } = parseAffine(recipe.format);
  const width = w.shape[w.shape.length - 1], lead = w.shape.slice(0, -1);
  const elements = w.shape.reduce((a, b) => a * b, 1);
  const parts = recipe.kind === "parts" ? recipe.make : null;
  const codes = parts
    ? () => [parts().values]
    : () => codePieces(recipe as Hashed, elements * bits / 32);
  const part = (which: "scale" | "bias") =>
    parts
      ? () => [parts()[`${which}${which === "scale" ? "s" : "es"}` as "scales" | "biases"]]
      : () => scalePieces(recipe as Hashed, elements / group, which);
  const perGroup = { dtype: "BF16", shape: [...lead, width / group] };
  return [
    { name: `${path}.weight`, dtype: "U32", shape: [...lead, width * bits / 32], data: codes },
    { name: `${path}.scales`, ...perGroup, data: part("scale") },
    { name: `${path}.biases`, ...perGroup, data: part("bias") },
  ];
}

type Hashed = Recipe & { readonly kind: "hashed"; readonly format: AffineFormat };

function* codePieces({ seedLo, seedHi }: Hashed, words: number): Generator<Uint8Array> {
  const piece = new Uint32Array(Math.min(words, PIECE_WORDS));
  for (let at = 0; at < words; at += piece.length) {
    const part = piece.subarray(0, Math.min(piece.length, words - at));
    fillRandomWords(seedLo, seedHi, at, part);
    yield new Uint8Array(part.buffer, 0, part.byteLength);
  }
}

function* scalePieces(
  { format, seedLo, seedHi, step }: Hashed,
  groups: number,
  which: "scale" | "bias",
): Generator<Uint8Array> {
  const piece = new Uint16Array(Math.min(groups, PIECE_GROUPS));
  for (let at = 0; at < groups; at += piece.length) {
    const n = Math.min(piece.length, groups - at);
    for (let g = 0; g < n; g++) {
      piece[g] = randomScale(format, seedLo, seedHi, step, at + g)[which];
    }
    yield new Uint8Array(piece.buffer, 0, 2 * n);
  }
}
