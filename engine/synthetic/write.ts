/**
 * A synthetic model as a checkpoint in the layout of MLX's converter, streamed to disk in shards: the same
 * bytes that load.ts makes on a device, so both give the same output. A device makes them many times faster,
 * but none is needed.
 */
import type { Binding, Device } from "../../ffi/abi/handle.ts";
import { packWeight, parseAffine, weightBytes } from "../../kernels/formats/affine.ts";
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
import { UnfinishedFiles } from "../checkpoint/unfinished.ts";
import type { SyntheticModel } from "./load.ts";
import { type Hashed, makeHashed } from "./hashed.ts";
import { type Recipe, recipeOf } from "./recipe.ts";

/** As published checkpoints are cut. */
const SHARD_BYTES = 5e9;
const PIECE_WORDS = 1 << 18;
const PIECE_GROUPS = 1 << 16;
const PIECE_BYTES = 8 << 20;
/** A file system takes one write to a file at a time. Each shard has one weight in memory. */
const SHARDS_AT_ONCE = 6;

export interface WriteOptions {
  /** Makes the large weights; its memory is read, so it should be the machine's own. */
  readonly device?: Device;
  readonly onProgress?: (p: Progress) => void;
  readonly shardBytes?: number;
  readonly signal?: AbortSignal;
}

/**
 * Writes config.json and the tensors into a folder; returns how many bytes of tensors there are. Leaves nothing
 * there when it fails, or throws the reason of an aborted signal.
 */
export async function writeCheckpoint(
  folder: string,
  model: SyntheticModel,
  { device, onProgress, shardBytes = SHARD_BYTES, signal }: WriteOptions = {},
): Promise<number> {
  const { config, options, json } = model;
  const rules: Record<string, unknown> = { group_size: 64, bits: options.bits, mode: "affine" };
  const tensors = weightList(config).flatMap((w) => {
    const path = mlxPath(w.name), recipe = recipeOf(config, w, options);
    const own = /^q(\d)/.exec(recipe.format)?.[1];
    if (own && Number(own) !== options.bits) rules[path] = { group_size: 64, bits: Number(own) };
    return tensorsOf(w, path, recipe, device);
  });
  const total = tensors.reduce((sum, t) => sum + tensorBytes(t), 0);
  await using files = await UnfinishedFiles.begin(folder);
  let done = 0;
  const shards = cut(tensors, shardBytes), map: Record<string, string> = {};
  const next = shards.entries();
  const failure = new AbortController();
  const stop = signal ? AbortSignal.any([signal, failure.signal]) : failure.signal;
  const writer = async () => {
    for (const [i, shard] of next) {
      stop.throwIfAborted();
      const name = shards.length === 1 ? "model.safetensors" : shardName(i + 1, shards.length);
      for (const t of shard) map[t.name] = name;
      const onTensor = (bytes: number) => {
        done += bytes;
        onProgress?.({ stage: "writing weights", done, total, unit: "bytes" });
      };
      try {
        await writeSafetensors(files.add(name), shard, { format: "mlx" }, onTensor, stop);
      } catch (e) {
        // The other writers end with the very same error.
        failure.abort(e);
        throw e;
      }
    }
  };
  const writers = Array.from({ length: SHARDS_AT_ONCE }, writer);
  // None still writes when one has failed.
  await Promise.allSettled(writers);
  await Promise.all(writers);
  if (shards.length > 1) {
    const index = { metadata: { total_size: total }, weight_map: map };
    await writeJson(files.add("model.safetensors.index.json"), index);
  }
  // Last, so that a folder that was not finished is no checkpoint.
  await writeJson(files.add("config.json"), quantizedJson(json, rules));
  await files.finish();
  return total;
}

/** Fields in which some tool says how weights are quantised, at the top or in text_config. */
const QUANTIZATION_FIELDS = ["quantization", "quantization_config", "compression_config"];

/** The config with what it said of other weights replaced, under both names that MLX's converter writes. */
function quantizedJson(json: SyntheticModel["json"], rules: Record<string, unknown>) {
  const rest = (fields: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      Object.entries(fields).filter(([name]) => !QUANTIZATION_FIELDS.includes(name)),
    );
  const text = json.text_config;
  const nested = typeof text === "object" && text !== null
    ? { text_config: rest(text as Record<string, unknown>) }
    : {};
  return { ...rest(json), ...nested, quantization: rules, quantization_config: rules };
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

function tensorsOf(
  w: WeightSpec,
  path: string,
  recipe: Recipe,
  device: Device | undefined,
): TensorToWrite[] {
  if (recipe.kind === "hashed" || recipe.kind === "parts") {
    return affine(w, path, recipe, device);
  }
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
  device: Device | undefined,
): TensorToWrite[] {
  const { bits, group } = parseAffine(recipe.format);
  const width = w.shape[w.shape.length - 1], lead = w.shape.slice(0, -1);
  const [values, scales, biases] = partsData(w, recipe, device);
  const perGroup = { dtype: "BF16", shape: [...lead, width / group] };
  return [
    { name: `${path}.weight`, dtype: "U32", shape: [...lead, width * bits / 32], data: values },
    { name: `${path}.scales`, ...perGroup, data: scales },
    { name: `${path}.biases`, ...perGroup, data: biases },
  ];
}

type Data = NonNullable<TensorToWrite["data"]>;

/** Codes, scales and biases. */
function partsData(
  { shape }: WeightSpec,
  recipe: Recipe & { readonly kind: "hashed" | "parts" },
  device: Device | undefined,
): Data[] {
  if (recipe.kind === "parts") {
    return (["values", "scales", "biases"] as const).map((part) => () => [recipe.make()[part]]);
  }
  if (device) {
    const made = new MadeParts(device, recipe, shape);
    return [0, 1, 2].map((part) => () => made.pieces(part));
  }
  const { bits, group } = parseAffine(recipe.format);
  const elements = shape.reduce((a, b) => a * b, 1);
  return [
    () => codePieces(recipe, elements * bits / 32),
    () => scalePieces(recipe, elements / group, "scale"),
    () => scalePieces(recipe, elements / group, "bias"),
  ];
}

/** A hashed weight in memory of a device, from when its first part is asked for until all have been read. */
class MadeParts {
  #parts: Promise<readonly Binding[]> | null = null;
  #left = 3;

  constructor(
    readonly device: Device,
    readonly recipe: Hashed,
    readonly shape: readonly number[],
  ) {}

  async *pieces(part: number): AsyncGenerator<Uint8Array> {
    const parts = await (this.#parts ??= this.#make()), { memory, bytes } = parts[part];
    const piece = new Uint8Array(Math.min(bytes, PIECE_BYTES));
    try {
      for (let at = 0; at < bytes; at += piece.length) {
        const some = piece.subarray(0, Math.min(piece.length, bytes - at));
        memory.read(at, some);
        yield some;
      }
    } finally {
      if (--this.#left === 0) parts.forEach(({ memory }) => memory[Symbol.dispose]());
    }
  }

  async #make(): Promise<readonly Binding[]> {
    const { device, recipe, shape } = this;
    const { values, scales, biases } = weightBytes(
      recipe.format,
      shape.reduce((a, b) => a * b, 1),
    );
    const parts = [values, scales, biases].map((bytes) => {
      return { memory: device.alloc(bytes), offset: 0, bytes };
    });
    await makeHashed(device, recipe, shape, parts);
    return parts;
  }
}

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
