/**
 * What a checkpoint holds against what its config.json calls for: all differences gathered, told in
 * one message with the likeliest reason. Finds none itself.
 */
import type { ModelConfig } from "../../kernels/models/qwen35_config.ts";
import { firstFive, UserError } from "../errors.ts";
import { withArticle } from "../wording.ts";

export type DifferenceKind =
  | "missing"
  | "unexpected"
  | "wrong shape"
  | "wrong dtype"
  | "quantised otherwise";

export interface Difference {
  readonly kind: DifferenceKind;
  /** Canonical name, or the name in the file where it has none. */
  readonly name: string;
  /** One line, starting with the name in the file. */
  readonly text: string;
}

const KINDS: readonly DifferenceKind[] = [
  "quantised otherwise",
  "wrong dtype",
  "wrong shape",
  "missing",
  "unexpected",
];
const OTHER_SCHEMES: readonly (readonly [RegExp, string])[] = [
  [/\.(qweight|qzeros|g_idx)$/, "AWQ or GPTQ"],
  [/\.weight_scale_inv$/, "FP8"],
  [
    /\.(weight_packed|weight_scale|weight_scale_2|input_scale|weight_shape)$/,
    "compressed-tensors, FP8 or NVFP4",
  ],
];
const CHOOSE = "choose an MLX affine 4-bit or 8-bit checkpoint, or the bf16 original";

/** The error that tells all differences of a checkpoint. */
export function differenceError(
  path: string,
  config: ModelConfig,
  found: readonly Difference[],
): UserError {
  const sorted = KINDS.flatMap((kind) => found.filter((d) => d.kind === kind));
  const counts = KINDS.map((kind) => [sorted.filter((d) => d.kind === kind).length, kind] as const)
    .filter(([n]) => n > 0).map(([n, kind]) => `${n} ${kind}`);
  const model = `${withArticle(config.layers)}-layer ${
    config.moe ? "MoE" : "dense"
  } Qwen3.5 decoder`;
  const lines = sorted.map((d) => `${d.kind}: ${d.text}`);
  const told = `${counts.join(", ")} (${
    firstFive(counts.length > 1 ? lines : sorted.map((d) => d.text), "; ", 300)
  })`;
  return new UserError(
    `Checkpoint ${path} does not fit its config.json: ${told}; expected the tensors of ${model}. ` +
      `${reasonOf(config, sorted)}.`,
    { details: lines },
  );
}

/** One sentence without its full stop: the likeliest reason and what to do. */
function reasonOf(config: ModelConfig, found: readonly Difference[]): string {
  const some = (kind: DifferenceKind, test: RegExp) =>
    found.some((d) => d.kind === kind && (test.test(d.name) || test.test(d.text)));
  const names = (kind: DifferenceKind) => found.filter((d) => d.kind === kind).map((d) => d.name);
  const missing = names("missing"), unexpected = names("unexpected");
  if (some("unexpected", /\.in_proj_(qkvz|ba)\b/)) {
    return "It is a Qwen3-Next checkpoint, which is not supported: choose a Qwen3.5 or Qwen3.6 one";
  }
  const scheme = OTHER_SCHEMES.find(([test]) => unexpected.some((n) => test.test(n)))?.[1];
  if (scheme) return `It is quantised by ${scheme}, which is not supported: ${CHOOSE}`;
  if (some("wrong dtype", /\bF8_/)) {
    return `It holds FP8 weights, which are not supported: ${CHOOSE}`;
  }
  if (found.some((d) => d.kind === "quantised otherwise")) {
    return `This quantisation is not supported: ${CHOOSE}`;
  }
  if (unexpected.some((n) => n.includes("lora_"))) {
    return "It holds an adapter: merge the adapter into its base model first";
  }
  if (missing.length > 0 && missing.every((n) => n === "lmHead")) {
    return "Probably the output head is the embedding: set tie_word_embeddings to true in config.json";
  }
  if (unexpected.some((n) => n.endsWith(".bias"))) {
    return "It adds biases, which no kernel here does: choose a Qwen3.5 or Qwen3.6 checkpoint";
  }
  if (some("wrong shape", /config\.json says groups of/)) {
    return "Probably group_size of config.json is not theirs: use the one published with the tensors";
  }
  return layerReason(config, missing, unexpected) ??
    (missing.length === 0 && unexpected.length === 0
      ? "Probably config.json belongs to another size of the model: use the one published with the tensors"
      : "Use the config.json and the tensor files that were published together");
}

function layerReason(
  config: ModelConfig,
  missing: readonly string[],
  unexpected: readonly string[],
): string | undefined {
  const layerOf = (name: string) => Number(/^layers\.(\d+)\./.exec(name)?.[1] ?? -1);
  const first = Math.min(...missing.map(layerOf));
  if (missing.length > 0 && first > 0 && unexpected.length === 0) {
    const rest = missing.every((n) => layerOf(n) >= first);
    if (rest && missing.some((n) => layerOf(n) === config.layers - 1)) {
      return `Probably a part was not downloaded, from layer ${first} on: finish the download`;
    }
  }
  if (unexpected.some((n) => layerOf(n) >= config.layers)) {
    return `It has more layers than num_hidden_layers (${config.layers}): use its own config.json`;
  }
  const swaps: readonly (readonly [RegExp, RegExp, string])[] = [
    [/\.(gdn|attn)\./, /\.(gdn|attn)\./, "layer_types of config.json does not fit the tensors"],
    [/\.(mlp|moe)\./, /\.(mlp|moe)\./, "model_type of config.json mistakes dense for MoE layers"],
  ];
  for (const [from, to, reason] of swaps) {
    const lost = missing.find((n) => from.test(n));
    const extra = unexpected.find((n) => to.test(n));
    if (lost && extra && from.exec(lost)![1] !== to.exec(extra)![1]) {
      return `Probably ${reason}: use the one published with them`;
    }
  }
  return undefined;
}
