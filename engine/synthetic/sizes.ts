/**
 * config.json of every published Qwen3.5 and Qwen3.6 size, by short name: enough to run an architecture
 * whose weights are not here. Owns the sizes; makes no weights.
 */

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

/** Short names of models that have one of these sizes. */
export const SIZE_OF_ALIAS: Readonly<Record<string, Size>> = {
  "qwen35-0.8b": "0.8B",
  "qwen35-2b": "2B",
  "qwen35-4b": "4B",
  "qwen35-9b": "9B",
  "qwen35-27b": "27B",
  "qwen35-a3b": "35B-A3B",
  "qwen35-122b-a10b": "122B-A10B",
  "qwen35-397b-a17b": "397B-A17B",
  "qwen36-27b": "27B",
  "qwen36-a3b": "35B-A3B",
};

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

/** What a smaller relative of an architecture keeps; undefined: all of it. */
export interface Reduction {
  readonly layers?: number;
  readonly experts?: number;
  readonly vocab?: number;
}

/** The same architecture with fewer layers, experts or token ids. */
export function reduceConfig(
  json: Readonly<Record<string, unknown>>,
  { layers, experts, vocab }: Reduction,
): Record<string, unknown> {
  const nested = typeof json.text_config === "object" && json.text_config !== null;
  const text = { ...(nested ? json.text_config as Record<string, unknown> : json) };
  if (layers !== undefined) {
    const kinds = Array.isArray(text.layer_types) ? text.layer_types : undefined;
    text.num_hidden_layers = layers;
    // Repeats the pattern where more layers are wanted than there are.
    if (kinds) {
      text.layer_types = Array.from({ length: layers }, (_, i) => kinds[i % kinds.length]);
    }
  }
  if (experts !== undefined) text.num_experts = experts;
  if (vocab !== undefined) text.vocab_size = vocab;
  return nested ? { ...json, text_config: text } : text;
}
