/** What a checkpoint holds, costs and needs, from its headers alone; a refusal becomes part of the report. */
import type { Env, InspectReport, MemoryForecast, TensorGroup, TokenCost } from "./api_types.ts";
import { resolveModel } from "./aliases.ts";
import {
  kvBytesPerToken,
  memoryForecast,
  type ModelFacts,
  modelFacts,
  scratchGuess,
  stateBytes,
} from "./checkpoint/facts.ts";
import { type Checkpoint, openCheckpoint } from "./checkpoint/folder.ts";
import { checkValues, damageError } from "./checkpoint/sanity.ts";
import { type PlannedWeight, planWeights, type WeightPlan } from "./checkpoint/weights.ts";
import { UserError } from "./errors.ts";
import { loadTexts } from "./texts.ts";
import { copiedBytes } from "./weights.ts";
import { prefillRowsDefault } from "./prefill_rows.ts";
import type { KvType } from "../kernels/models/forward.ts";
import type { ModelConfig } from "../kernels/models/qwen35_config.ts";
import { weightBytes } from "../kernels/formats/affine.ts";

const DEPTHS = [0, 1024, 32768, 262144];
const FORECASTS: readonly (readonly [number, KvType])[] = [
  [4096, "f16"],
  [32768, "f16"],
  [32768, "q8"],
  [262144, "f16"],
];

/** Reads config and tensor headers. Throws UserError only when there is nothing to report on. */
export async function inspectCheckpoint(nameOrPath: string, env: Env): Promise<InspectReport> {
  const { path, note } = await resolveModel(nameOrPath, env);
  const checkpoint = await openCheckpoint(path);
  const { config } = checkpoint;
  const refusals: string[] = [], warnings: string[] = [];
  let plan: WeightPlan | null = null;
  try {
    plan = planWeights(checkpoint);
  } catch (e) {
    if (!(e instanceof UserError)) throw e;
    refusals.push(e.message, ...e.details);
  }
  await readTexts(checkpoint, warnings, refusals);
  const values = plan && await checkValues(plan);
  if (values && values.damage.length > 0) refusals.push(damageError(path, values.damage).message);
  const fileBytes = checkpoint.files.reduce((n, f) => n + f.bytes, 0);
  const planned = new Map(plan?.weights.map((w) => [w.name, w]));
  const facts = modelFacts(config, (w) => planned.get(w.name)?.format ?? "bf16");
  return {
    name: nameOrPath,
    path,
    format: storage(plan),
    family: config.moe ? "Qwen3.5 MoE" : "Qwen3.5 dense",
    config: shape(config),
    fileBytes,
    params: facts.parametersTotal,
    activeParams: facts.parametersActive,
    groups: plan ? groups(plan, facts) : [],
    costs: DEPTHS.filter((d) => d <= config.contextMax).map((d) => tokenCost(facts, d)),
    memory: plan ? forecasts(checkpoint, plan) : [],
    notes: [
      ...(note ? [note] : []),
      ...(plan ? [...plan.notes, `mean of the first norm ${values!.normMean.toPrecision(3)}`] : []),
    ],
    warnings: [...warnings, ...(plan?.warnings ?? []), ...(values?.warnings ?? [])],
    refusals,
  };
}

/** Texts are needed to generate; a chat template only for chats. */
async function readTexts(
  checkpoint: Checkpoint,
  warnings: string[],
  refusals: string[],
): Promise<void> {
  let whole = false;
  try {
    const texts = await loadTexts(checkpoint);
    if (!texts) warnings.push("no tokenizer.json: text cannot be used");
    whole = true;
    void texts?.chatTemplate;
  } catch (e) {
    if (!(e instanceof UserError)) throw e;
    if (whole) warnings.push(`no chats: ${e.message}`);
    else refusals.push(e.message);
  }
}

function storage(plan: WeightPlan | null): string {
  if (!plan) return "safetensors";
  const formats = byBytes(plan.weights.filter((w) => w.role !== "vector" && w.role !== "conv"));
  return `safetensors, mostly ${formats[0]}`;
}

/** Formats of some weights, most bytes first. */
function byBytes(weights: readonly PlannedWeight[]): string[] {
  const sums = new Map<string, number>();
  for (const w of weights) sums.set(w.format, (sums.get(w.format) ?? 0) + bytesOf(w));
  return [...sums].sort((a, b) => b[1] - a[1]).map(([format]) => format);
}

function elements(w: PlannedWeight): number {
  return w.shape.reduce((a, b) => a * b, 1);
}

function bytesOf(w: PlannedWeight): number {
  const { values, scales, biases } = weightBytes(w.format, elements(w));
  return values + scales + biases;
}

function shape(c: ModelConfig): InspectReport["config"] {
  const gdn = c.layerKinds.filter((k) => k === "gdn").length;
  return {
    layers: `${c.layers} (${gdn} Gated DeltaNet, ${c.layers - gdn} attention)`,
    hidden: c.hidden,
    attention: `${c.qHeads} query / ${c.kvHeads} KV heads of ${c.headDim}, rotary ${c.rotaryDim}`,
    "gated deltanet": `${c.kHeads} key / ${c.vHeads} value heads of ${c.gdnHeadDim}`,
    ffn: c.moe
      ? `${c.experts} experts of ${c.expertFfn}, ${c.topK} a token, shared ${c.sharedFfn}`
      : c.ffn,
    vocabulary: c.vocab,
    "tied head": c.tied,
    "longest context": c.contextMax,
    "MTP layers": c.mtpLayers,
  };
}

const GROUPS: readonly (readonly [string, RegExp])[] = [
  ["embedding", /^embed$/],
  ["output head", /^lmHead$/],
  ["GDN mixers", /\.gdn\.(qkv|z|b|a|out)$/],
  ["attention mixers", /\.attn\.[qkvo]$/],
  ["FFN", /\.mlp\./],
  ["routed experts", /\.moe\.experts/],
  ["shared expert", /\.moe\.shared.*Proj$/],
  ["router and shared gate", /\.moe\.(router|sharedGate)$/],
  ["norms, convolution, decay", /./],
];

function groups(plan: WeightPlan, facts: ModelFacts): TensorGroup[] {
  const left = new Set(plan.weights);
  return GROUPS.flatMap(([name, test]) => {
    const own = [...left].filter((w) => test.test(w.name));
    own.forEach((w) => left.delete(w));
    if (own.length === 0) return [];
    const read = facts.decode.parts.filter((p) =>
      p.part === name || (name === "embedding" && p.part === "embedding row") ||
      (name === "embedding" && p.part === "output head" &&
        !plan.weights.some((w) => w.name === "lmHead"))
    );
    return [{
      name,
      tensors: own.length,
      params: own.reduce((n, w) => n + elements(w), 0),
      bytes: own.reduce((n, w) => n + bytesOf(w), 0),
      bytesPerToken: read.reduce((n, p) => n + p.bytes, 0),
      formats: byBytes(own),
    }];
  });
}

function tokenCost(facts: ModelFacts, depth: number): TokenCost {
  const { decode, prefill } = facts;
  return {
    depth,
    weightBytes: decode.weightBytes,
    kvBytes: decode.kvBytesPerToken * depth,
    stateBytes: decode.stateBytes,
    flops: prefill.matmulFlops + prefill.headFlops + prefill.gdnRecurrentFlops +
      prefill.attentionFlopsPerKey * depth,
  };
}

function forecasts(checkpoint: Checkpoint, plan: WeightPlan): MemoryForecast[] {
  const { config } = checkpoint;
  const copied = copiedBytes(plan, "cpu");
  const mapped = plan.weights.filter((w) => w.source.kind === "mapped")
    .reduce((n, w) => n + bytesOf(w), 0);
  return FORECASTS.filter(([ctx]) => ctx <= config.contextMax).map(([ctx, kv]) => {
    const scratchBytes = scratchGuess(config, prefillRowsDefault("cpu"));
    const f = memoryForecast(config, { mapped, copied }, { ctx, kv, scratchBytes });
    return {
      ctx,
      kv,
      weightBytes: mapped + copied,
      kvBytes: kvBytesPerToken(config, kv) * ctx,
      stateBytes: stateBytes(config),
      scratchBytes,
      totalBytes: f.total,
    };
  });
}
