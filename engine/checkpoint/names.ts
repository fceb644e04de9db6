/**
 * Tensor names of Hugging Face and MLX checkpoints, and this project's names for the same weights.
 * Knows what is no part of the decoder (vision, draft head); reads no shapes and decides no format.
 */

/** What a stored tensor is to the decoder. */
export type Recognised =
  | { readonly kind: "weight" } & Place
  /** Of the MTP head, with its canonical place where the name has one. */
  | { readonly kind: "draft head"; readonly place?: Place }
  | { readonly kind: "vision" | "derived" }
  | { readonly kind: "unknown" };

export type Part = "weight" | "scales" | "biases";

/** Which part of which weight a tensor is. */
export interface Place {
  /** Canonical name; `...expertsGateUp` for the two stored as one. */
  readonly name: string;
  readonly part: Part;
  /** Index of the expert, where each has a tensor of its own. */
  readonly expert?: number;
}

/** Inside a layer: name in the file without a part's suffix, canonical name. */
const LAYER_NAMES: readonly (readonly [string, string])[] = [
  ["input_layernorm", "inputNorm"],
  ["post_attention_layernorm", "postNorm"],
  ["self_attn.q_proj", "attn.q"],
  ["self_attn.k_proj", "attn.k"],
  ["self_attn.v_proj", "attn.v"],
  ["self_attn.o_proj", "attn.o"],
  ["self_attn.q_norm", "attn.qNorm"],
  ["self_attn.k_norm", "attn.kNorm"],
  ["linear_attn.in_proj_qkv", "gdn.qkv"],
  ["linear_attn.in_proj_z", "gdn.z"],
  ["linear_attn.in_proj_b", "gdn.b"],
  ["linear_attn.in_proj_a", "gdn.a"],
  ["linear_attn.conv1d", "gdn.conv"],
  ["linear_attn.A_log", "gdn.negA"],
  ["linear_attn.dt_bias", "gdn.dtBias"],
  ["linear_attn.norm", "gdn.norm"],
  ["linear_attn.out_proj", "gdn.out"],
  ["mlp.gate_proj", "mlp.gate"],
  ["mlp.up_proj", "mlp.up"],
  ["mlp.down_proj", "mlp.down"],
  ["mlp.gate", "moe.router"],
  ["mlp.shared_expert_gate", "moe.sharedGate"],
  ["mlp.shared_expert.gate_proj", "moe.sharedGateProj"],
  ["mlp.shared_expert.up_proj", "moe.sharedUpProj"],
  ["mlp.shared_expert.down_proj", "moe.sharedDownProj"],
  ["mlp.switch_mlp.gate_proj", "moe.expertsGate"],
  ["mlp.switch_mlp.up_proj", "moe.expertsUp"],
  ["mlp.switch_mlp.down_proj", "moe.expertsDown"],
  ["mlp.experts.gate_up_proj", "moe.expertsGateUp"],
  ["mlp.experts.down_proj", "moe.expertsDown"],
];
const TOP_NAMES: readonly (readonly [string, string])[] = [
  ["embed_tokens", "embed"],
  ["norm", "finalNorm"],
  ["lm_head", "lmHead"],
];
/** Of the MTP head beside its one layer, `mtp.` taken off. */
const HEAD_NAMES: readonly (readonly [string, string])[] = [
  ["fc", "fc"],
  ["norm", "norm"],
  ["pre_fc_norm_embedding", "embedNorm"],
  ["pre_fc_norm_hidden", "hiddenNorm"],
];
/** Tensors that carry no `.weight` in any layout. */
const BARE = ["linear_attn.A_log", "linear_attn.dt_bias"];
/** Fused experts have no `.weight` as published, and one when they are quantised. */
const BARE_OR_NOT = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"];

const CANONICAL = new Map(LAYER_NAMES);
const TOP_CANONICAL = new Map(TOP_NAMES);
const HEAD_CANONICAL = new Map(HEAD_NAMES);
/** Longest first, so that none hides another. */
const PREFIXES = ["model.language_model.", "language_model.model.", "language_model.", "model."];
const VISION =
  /^(model\.|language_model\.)?(visual|vision_tower|vision_model|multi_modal_projector)\./;
const DRAFT = /^((model|language_model)\.){0,2}mtp\./;
const EXPERT = /^mlp\.experts\.(\d{1,5})\.(gate|up|down)_proj$/;
const EXPERT_NAMES = { gate: "moe.expertsGate", up: "moe.expertsUp", down: "moe.expertsDown" };

/** What a tensor of this name is. */
export function recognise(stored: string): Recognised {
  if (VISION.test(stored)) return { kind: "vision" };
  if (DRAFT.test(stored)) {
    const place = recognisePlace(stored);
    return place ? { kind: "draft head", place } : { kind: "draft head" };
  }
  if (stored.endsWith(".rotary_emb.inv_freq")) return { kind: "derived" };
  const place = recognisePlace(stored);
  return place ? { kind: "weight", ...place } : { kind: "unknown" };
}

function recognisePlace(stored: string): Place | undefined {
  const suffix = /\.(weight|scales|biases)$/.exec(stored);
  const part = (suffix?.[1] ?? "weight") as Part;
  const module = withoutPrefix(suffix ? stored.slice(0, suffix.index) : stored);
  const found = recogniseModule(module);
  if (!found) return undefined;
  const path = module.replace(/^(mtp\.)?layers\.\d+\./, "");
  const bare = BARE.includes(path);
  if (bare === Boolean(suffix) && !BARE_OR_NOT.includes(path)) return undefined;
  return { ...found, part };
}

/** Canonical name of a module path such as a quantisation rule names, or undefined. */
export function canonicalModule(path: string): string | undefined {
  return recogniseModule(withoutPrefix(path))?.name;
}

function withoutPrefix(name: string): string {
  const prefix = PREFIXES.find((p) => name.startsWith(p));
  return prefix ? name.slice(prefix.length) : name;
}

function recogniseModule(module: string): { name: string; expert?: number } | undefined {
  if (module.startsWith("mtp.")) return recogniseHead(module.slice(4));
  const layer = /^layers\.(0|[1-9]\d{0,4})\.(.+)$/.exec(module);
  if (!layer) {
    const name = TOP_CANONICAL.get(module);
    return name === undefined ? undefined : { name };
  }
  return recogniseInLayer(`layers.${layer[1]}`, layer[2]);
}

function recogniseInLayer(block: string, path: string) {
  const expert = EXPERT.exec(path);
  const name = expert ? EXPERT_NAMES[expert[2] as keyof typeof EXPERT_NAMES] : CANONICAL.get(path);
  if (name === undefined) return undefined;
  return { name: `${block}.${name}`, ...expert && { expert: Number(expert[1]) } };
}

/** The head has one layer, a decoder layer of full attention. */
function recogniseHead(module: string): { name: string; expert?: number } | undefined {
  if (module.startsWith("layers.0.")) return recogniseInLayer("mtp", module.slice(9));
  const name = HEAD_CANONICAL.get(module);
  return name === undefined ? undefined : { name: `mtp.${name}` };
}

/**
 * How a file that uses `like` names would call a canonical weight: for messages about what is missing.
 */
export function storedName(canonical: string, like: Iterable<string>): string {
  if (canonical.startsWith("mtp.")) return storedHeadName(canonical.slice(4), like);
  const layer = /^(layers\.\d+\.)(.+)$/.exec(canonical);
  const [head, tail] = layer ? [layer[1], layer[2]] : ["", canonical];
  const path = [...LAYER_NAMES, ...TOP_NAMES].find(([, c]) => c === tail)?.[0] ?? tail;
  const dot = BARE.includes(path) ? path : `${path}.weight`;
  return (path === "lm_head" ? headPrefix(like) : prefixOf(like)) + head + dot;
}

function storedHeadName(canonical: string, like: Iterable<string>): string {
  const top = HEAD_NAMES.find(([, c]) => c === canonical)?.[0];
  const inner = LAYER_NAMES.find(([, c]) => c === canonical)?.[0] ?? canonical;
  return `${headPrefix(like)}mtp.${top ?? `layers.0.${inner}`}.weight`;
}

function prefixOf(names: Iterable<string>): string {
  for (const name of names) {
    const at = name.search(/(layers\.\d+|embed_tokens)\./);
    if (at >= 0 && recognise(name).kind === "weight") return name.slice(0, at);
  }
  return "model.language_model.";
}

function headPrefix(names: Iterable<string>): string {
  return prefixOf(names) === "language_model.model." ? "language_model." : "";
}
