/**
 * What a Qwen3.5 or Qwen3.6 text model is: its sizes, read and checked from a config.json. It reads no
 * file, knows no checkpoint layout and no tape.
 */

export type LayerKind = "gdn" | "attention";

export interface ModelConfig {
  readonly family: "qwen3_5";
  readonly moe: boolean;
  readonly hidden: number;
  readonly layers: number;
  readonly layerKinds: readonly LayerKind[];
  readonly qHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Leading dims of each head that RoPE turns. */
  readonly rotaryDim: number;
  readonly ropeTheta: number;
  /** Width of the dense FFN; 0 when moe. */
  readonly ffn: number;
  readonly kHeads: number;
  readonly vHeads: number;
  readonly gdnHeadDim: number;
  readonly convTaps: number;
  readonly vocab: number;
  /** 0 when dense, as are topK, expertFfn and sharedFfn. */
  readonly experts: number;
  readonly topK: number;
  readonly expertFfn: number;
  readonly sharedFfn: number;
  /** The output head is the embedding. */
  readonly tied: boolean;
  readonly normEps: number;
  readonly contextMax: number;
  readonly mtpLayers: number;
  /** Key head of value head j: 0 grouped, j / (vHeads / kHeads); 1 tiled, j % kHeads. */
  readonly headMap: 0 | 1;
}

/** A config.json that cannot be run; the message is one line. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

const TEXT_TYPES = ["qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"];
const HEAD_DIMS = [64, 128, 256, 512];
const RESTORE = "Restore the config.json that the model was published with.";

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value as a message shows it: short, and never more than one line. */
function shown(value: unknown): string {
  if (value === undefined) return "missing";
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** The fields of one JSON object; every read checks type and range and names what it refuses. */
class Fields {
  constructor(readonly json: Json, readonly where: string, readonly path: string) {}

  get(key: string): unknown {
    const value = Object.hasOwn(this.json, key) ? this.json[key] : undefined;
    return value === null ? undefined : value;
  }

  refuse(key: string, expected: string, todo = RESTORE): never {
    const is = `${this.path}${key} is ${shown(this.get(key))}`;
    throw new ConfigError(`${this.where}: ${is}; expected ${expected}. ${todo}`);
  }

  int(key: string, min: number, max: number, fallback?: number): number {
    const value = this.get(key) ?? fallback;
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
      this.refuse(key, `an integer from ${min} to ${max}`);
    }
    return value;
  }

  /** A finite number above 0 and at most `max`, or undefined where the key is absent. */
  positive(key: string, max: number): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !(value > 0) || value > max) {
      this.refuse(key, `a number above 0 and at most ${max}`);
    }
    return value;
  }

  flag(key: string): boolean | undefined {
    const value = this.get(key);
    if (value !== undefined && typeof value !== "boolean") this.refuse(key, "true or false");
    return value;
  }

  object(key: string): Fields | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (!isObject(value)) this.refuse(key, "an object");
    return new Fields(value, this.where, `${this.path}${key}.`);
  }

  /** Absent, or one of `allowed`: anything else changes the maths. */
  only(key: string, allowed: readonly unknown[]): void {
    const value = this.get(key);
    if (value !== undefined && !allowed.includes(value)) {
      const expected = allowed.map((a) => JSON.stringify(a)).join(" or ");
      this.refuse(key, expected, "The kernels compute nothing else: choose another checkpoint.");
    }
  }
}

/** Reads and checks a config.json; `where` names the file in messages. Throws ConfigError. */
export function parseConfig(json: unknown, where: string): ModelConfig {
  if (!isObject(json)) {
    throw new ConfigError(`${where}: holds ${shown(json)}; expected a JSON object. ${RESTORE}`);
  }
  const root = new Fields(json, where, "");
  const text = root.object("text_config") ?? root;
  const moe = textType(root, text).includes("_moe");
  refuseOtherMaths(text);
  const layers = text.int("num_hidden_layers", 1, 512);
  const tied = text.flag("tie_word_embeddings") ?? root.flag("tie_word_embeddings") ?? false;
  const config: ModelConfig = {
    family: "qwen3_5",
    moe,
    hidden: text.int("hidden_size", 1, 65536),
    layers,
    layerKinds: Object.freeze(layerKinds(text, layers)),
    ...attentionSizes(text),
    ...gdnSizes(text),
    ...ffnSizes(text, moe),
    vocab: text.int("vocab_size", 1, 1 << 22),
    tied,
    normEps: text.positive("rms_norm_eps", 1) ?? text.refuse("rms_norm_eps", "a number like 1e-6"),
    contextMax: text.int("max_position_embeddings", 1, 1 << 24),
    mtpLayers: text.int("mtp_num_hidden_layers", 0, 16, 0),
    headMap: 0,
  };
  return Object.freeze(config);
}

/** The text model's type; a wrapper of another type (a drafter, say) is refused too. */
function textType(root: Fields, text: Fields): string {
  const types = [root.get("model_type"), text.get("model_type")].filter((t) => t !== undefined);
  const known = (t: unknown) => typeof t === "string" && TEXT_TYPES.includes(t);
  const odd = types.length === 0 ? undefined : types.find((t) => !known(t));
  if (types.length === 0 || odd !== undefined) {
    const expected = "expected qwen3_5, qwen3_5_moe, qwen3_5_text or qwen3_5_moe_text";
    throw new ConfigError(
      `${root.where}: model_type is ${shown(odd)}, an architecture that is not supported; ` +
        `${expected}. Choose a Qwen3.5 or Qwen3.6 checkpoint.`,
    );
  }
  return types[types.length - 1] as string;
}

function refuseOtherMaths(text: Fields): void {
  text.only("hidden_act", ["silu"]);
  text.only("attention_bias", [false]);
  text.only("attn_output_gate", [true]);
  text.only("output_gate_type", ["swish", "silu"]);
  text.only("norm_topk_prob", [true]);
  text.only("use_sliding_window", [false]);
  text.only("decoder_sparse_step", [1]);
  text.only("mtp_use_dedicated_embeddings", [false]);
  const dense = text.get("mlp_only_layers");
  if (dense !== undefined && !(Array.isArray(dense) && dense.length === 0)) {
    text.refuse("mlp_only_layers", "[]", "Layers of mixed FFN kinds are not supported.");
  }
  for (const key of ["rope_scaling", "rope_parameters"]) {
    const rope = text.object(key);
    rope?.only("rope_type", ["default"]);
    rope?.only("type", ["default"]);
  }
}

function layerKinds(text: Fields, layers: number): LayerKind[] {
  const types = text.get("layer_types");
  if (types === undefined) {
    const interval = text.int("full_attention_interval", 1, 512, 4);
    return Array.from({ length: layers }, (_, i) => (i + 1) % interval ? "gdn" : "attention");
  }
  if (!Array.isArray(types) || types.length !== layers) {
    text.refuse("layer_types", `a list of ${layers} (num_hidden_layers) layer types`);
  }
  return types.map((type) => {
    if (type === "linear_attention") return "gdn";
    if (type === "full_attention") return "attention";
    const todo = "The kernels compute nothing else: choose another checkpoint.";
    throw new ConfigError(
      `${text.where}: ${text.path}layer_types holds ${shown(type)}; ` +
        `expected "linear_attention" or "full_attention". ${todo}`,
    );
  });
}

/** A rope field may stand beside rope_parameters, inside it, or in both with one value. */
function ropeField(text: Fields, key: string, max: number): number | undefined {
  const inner = text.object("rope_parameters")?.positive(key, max);
  const outer = text.positive(key, max);
  if (inner !== undefined && outer !== undefined && inner !== outer) {
    text.refuse(key, `the ${inner} of rope_parameters.${key}`);
  }
  return inner ?? outer;
}

function attentionSizes(text: Fields) {
  const qHeads = text.int("num_attention_heads", 1, 1024);
  const kvHeads = text.int("num_key_value_heads", 1, 1024);
  if (qHeads % kvHeads) {
    text.refuse("num_key_value_heads", `a divisor of num_attention_heads (${qHeads})`);
  }
  const headDim = text.int("head_dim", 1, 512);
  if (!HEAD_DIMS.includes(headDim)) text.refuse("head_dim", `one of ${HEAD_DIMS.join(", ")}`);
  const rotaryDim = headDim * (ropeField(text, "partial_rotary_factor", 1) ?? 0.25);
  if (rotaryDim < 2 || rotaryDim % 2) {
    text.refuse("partial_rotary_factor", `an even number of the ${headDim} dims of a head`);
  }
  const ropeTheta = ropeField(text, "rope_theta", 1e12) ??
    text.refuse("rope_theta", "a number like 10000000, here or in rope_parameters");
  return { qHeads, kvHeads, headDim, rotaryDim, ropeTheta };
}

function gdnSizes(text: Fields) {
  const kHeads = text.int("linear_num_key_heads", 1, 1024);
  const vHeads = text.int("linear_num_value_heads", 1, 1024);
  if (vHeads % kHeads) {
    text.refuse("linear_num_value_heads", `a multiple of linear_num_key_heads (${kHeads})`);
  }
  const gdnHeadDim = text.int("linear_key_head_dim", 16, 256);
  if (gdnHeadDim % 16) text.refuse("linear_key_head_dim", "a multiple of 16");
  if (text.int("linear_value_head_dim", 16, 256) !== gdnHeadDim) {
    text.refuse("linear_value_head_dim", `linear_key_head_dim (${gdnHeadDim})`);
  }
  const convTaps = text.int("linear_conv_kernel_dim", 1, 64);
  if (convTaps !== 4) text.refuse("linear_conv_kernel_dim", "4");
  return { kHeads, vHeads, gdnHeadDim, convTaps };
}

function ffnSizes(text: Fields, moe: boolean) {
  if (!moe) {
    const experts = text.int("num_experts", 0, 1024, 0);
    if (experts) text.refuse("num_experts", "none, as model_type says a dense model");
    const ffn = text.int("intermediate_size", 1, 1 << 20);
    return { ffn, experts: 0, topK: 0, expertFfn: 0, sharedFfn: 0 };
  }
  const experts = text.int("num_experts", 1, 1024);
  return {
    ffn: 0,
    experts,
    topK: text.int("num_experts_per_tok", 1, Math.min(32, experts)),
    expertFfn: text.int("moe_intermediate_size", 1, 1 << 16),
    sharedFfn: text.int("shared_expert_intermediate_size", 1, 1 << 16),
  };
}
