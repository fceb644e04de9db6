/**
 * Random Qwen3.5 checkpoints in the layout of MLX's 4-bit files: config.json of every published size,
 * and a writer that streams a whole checkpoint to disk. The same seed gives the same bytes.
 */
import { join } from "node:path";
import { numberToBf16 } from "../kernels/formats/float.ts";
import {
  type ModelConfig,
  parseConfig,
  weightList,
  type WeightSpec,
} from "../kernels/models/qwen35_config.ts";
import { storedName } from "../engine/checkpoint/names.ts";
import { type TensorToWrite, writeSafetensors } from "./safetensors_writer.ts";

/** hidden, layers, q heads, kv heads, ffn, GDN value heads, tied, experts, top k, expert ffn. */
const SIZES = {
  "0.8B": [1024, 24, 8, 2, 3584, 16, true, 0, 0, 0],
  "2B": [2048, 24, 8, 2, 6144, 16, true, 0, 0, 0],
  "4B": [2560, 32, 16, 4, 9216, 32, true, 0, 0, 0],
  "9B": [4096, 32, 16, 4, 12288, 32, false, 0, 0, 0],
  "27B": [5120, 64, 24, 4, 17408, 48, false, 0, 0, 0],
  "35B-A3B": [2048, 40, 16, 2, 0, 32, false, 256, 8, 512],
  "122B-A10B": [3072, 48, 32, 2, 0, 64, false, 256, 8, 1024],
  "397B-A17B": [4096, 60, 32, 2, 0, 64, false, 512, 10, 1024],
} as const;

export type Size = keyof typeof SIZES;
export const ALL_SIZES = Object.keys(SIZES) as Size[];

export type ConfigJson = Record<string, unknown> & { text_config: Record<string, unknown> };

/** config.json of a published size; `text` replaces fields of its text_config. */
export function configJson(size: Size, text: Record<string, unknown> = {}): ConfigJson {
  const [hidden, layers, q, kv, ffn, vHeads, tied, experts, topK, expertFfn] = SIZES[size];
  const type = experts ? "qwen3_5_moe" : "qwen3_5";
  const n = (text.num_hidden_layers as number | undefined) ?? layers;
  const ffnKeys = experts
    ? {
      num_experts: experts,
      num_experts_per_tok: topK,
      moe_intermediate_size: expertFfn,
      shared_expert_intermediate_size: expertFfn,
      mlp_only_layers: [],
    }
    : { intermediate_size: ffn };
  return {
    model_type: type,
    tie_word_embeddings: tied,
    text_config: {
      model_type: `${type}_text`,
      hidden_size: hidden,
      num_hidden_layers: layers,
      num_attention_heads: q,
      num_key_value_heads: kv,
      head_dim: 256,
      linear_num_key_heads: 16,
      linear_num_value_heads: vHeads,
      linear_key_head_dim: 128,
      linear_value_head_dim: 128,
      linear_conv_kernel_dim: 4,
      layer_types: Array.from(
        { length: n },
        (_, i) => i % 4 === 3 ? "full_attention" : "linear_attention",
      ),
      full_attention_interval: 4,
      ...ffnKeys,
      vocab_size: 248320,
      max_position_embeddings: 262144,
      rms_norm_eps: 1e-6,
      hidden_act: "silu",
      attention_bias: false,
      attn_output_gate: true,
      mtp_num_hidden_layers: 1,
      mtp_use_dedicated_embeddings: false,
      tie_word_embeddings: tied,
      rope_parameters: {
        rope_type: "default",
        rope_theta: 10000000,
        partial_rotary_factor: 0.25,
        mrope_section: [11, 11, 10],
        mrope_interleaved: true,
      },
      ...text,
    },
  };
}

export interface SynthOptions {
  readonly seed?: number;
  readonly bits?: 4 | 8;
}

/** Writes config.json and model.safetensors into a folder and returns what the config says. */
export async function writeSynthetic(
  folder: string,
  json: Readonly<Record<string, unknown>>,
  { seed = 1, bits = 4 }: SynthOptions = {},
): Promise<ModelConfig> {
  const config = parseConfig(json, "config.json");
  const tensors: TensorToWrite[] = [];
  const rules: Record<string, unknown> = { group_size: 64, bits, mode: "affine" };
  for (const [i, w] of weightList(config).entries()) {
    const random = generator(seed * 1_000_003 + i);
    const path = mlxPath(w.name);
    if (!isQuantised(w)) {
      tensors.push(dense(w, path, random));
      continue;
    }
    const own = /\.moe\.(router|sharedGate)$/.test(w.name) ? 8 : bits;
    if (own !== bits) rules[path] = { group_size: 64, bits: own };
    tensors.push(...affine(w, path, own, random));
  }
  await Deno.mkdir(folder, { recursive: true });
  const text = JSON.stringify({ ...json, quantization: rules }, null, 2);
  await Deno.writeTextFile(join(folder, "config.json"), text + "\n");
  await writeSafetensors(join(folder, "model.safetensors"), tensors, { format: "mlx" });
  return config;
}

function isQuantised(w: WeightSpec): boolean {
  return w.role !== "vector" && w.role !== "conv" && w.shape[w.shape.length - 1] % 64 === 0;
}

/** Name without `.weight`, as MLX has it: experts apart, everything under language_model. */
function mlxPath(name: string): string {
  const experts = /^(layers\.\d+\.)moe\.experts(Gate|Up|Down)$/.exec(name);
  if (experts) {
    return `language_model.model.${experts[1]}mlp.switch_mlp.${experts[2].toLowerCase()}_proj`;
  }
  return storedName(name, ["language_model.model.embed_tokens.weight"]).replace(/\.weight$/, "");
}

type Random = () => number;

/** Uniform u32 values (xorshift32); streams of different seeds do not meet in practice. */
function generator(seed: number): Random {
  let x = Math.imul(seed, 0x9e3779b1) | 1;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return x >>> 0;
  };
}

const CHUNK = 1 << 18;

/**
 * Codes are uniform, scales such that a product keeps the size of its input: the deviation of a uniform
 * code is levels / sqrt(12). Half of the scales are negative, as MLX's are.
 */
function affine(w: WeightSpec, path: string, bits: 4 | 8, random: Random): TensorToWrite[] {
  const width = w.shape[w.shape.length - 1], lead = w.shape.slice(0, -1);
  const elements = w.shape.reduce((a, b) => a * b, 1), groups = elements / 64;
  const scales = new Uint16Array(groups), biases = new Uint16Array(groups);
  const step = Math.sqrt(12 / width) / 2 ** bits, middle = (2 ** bits - 1) / 2;
  for (let g = 0; g < groups; g++) {
    const r = random();
    const scale = (r & 1 ? 1 : -1) * step * (0.75 + (r >>> 1) / 2 ** 32);
    scales[g] = numberToBf16(scale);
    biases[g] = numberToBf16(-scale * middle);
  }
  const shape = [...lead, width / 64];
  return [
    {
      name: `${path}.weight`,
      dtype: "U32",
      shape: [...lead, width * bits / 32],
      data: () => words(elements * bits / 32, random),
    },
    { name: `${path}.scales`, dtype: "BF16", shape, data: () => [new Uint8Array(scales.buffer)] },
    { name: `${path}.biases`, dtype: "BF16", shape, data: () => [new Uint8Array(biases.buffer)] },
  ];
}

function* words(count: number, random: Random): Generator<Uint8Array> {
  const piece = new Uint32Array(Math.min(count, CHUNK));
  for (let left = count; left > 0; left -= piece.length) {
    const n = Math.min(left, piece.length);
    for (let i = 0; i < n; i++) piece[i] = random();
    yield new Uint8Array(piece.buffer, 0, n * 4);
  }
}

/** Values of what stays dense, in ranges that trained models have. */
function dense(w: WeightSpec, path: string, random: Random): TensorToWrite {
  const uniform = (low: number, high: number) => low + (high - low) * random() / 2 ** 32;
  const width = w.shape[w.shape.length - 1];
  const draw = w.name.endsWith(".negA")
    ? () => Math.log(uniform(1, 16))
    : w.name.endsWith(".dtBias")
    ? () => Math.log(Math.expm1(Math.exp(uniform(Math.log(1e-3), Math.log(0.1)))))
    : w.role === "conv"
    ? () => uniform(-0.8, 0.8)
    : w.role === "vector"
    ? () => uniform(0.8, 1.2)
    : () => uniform(-1, 1) * Math.sqrt(3 / width);
  const values = Float32Array.from({ length: w.shape.reduce((a, b) => a * b, 1) }, draw);
  const shape = w.role === "conv" ? [...w.shape, 1] : w.shape;
  if (w.name.endsWith(".negA")) {
    return { name: path, dtype: "F32", shape, data: () => [new Uint8Array(values.buffer)] };
  }
  const halves = Uint16Array.from(values, numberToBf16);
  const name = w.name.endsWith(".dtBias") ? path : `${path}.weight`;
  return { name, dtype: "BF16", shape, data: () => [new Uint8Array(halves.buffer)] };
}
