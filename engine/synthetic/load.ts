/**
 * A model without a checkpoint: the config of a named architecture, perhaps reduced, and weights made on the
 * device. Owns the choice of config and the order of work; recipe.ts says what each weight is.
 */
import { join } from "node:path";
import type { Device } from "../../ffi/abi/handle.ts";
import { isAffine, packWeight, weightBytes } from "../../kernels/formats/affine.ts";
import type { ModelConfig } from "../../kernels/models/qwen35_config.ts";
import { weightList, type WeightSpec } from "../../kernels/models/qwen35_weights.ts";
import { type CacheEnv, resolveModel } from "../aliases.ts";
import type { Progress } from "../api_types.ts";
import { modelConfig } from "../checkpoint/folder.ts";
import { UserError } from "../errors.ts";
import { refuseUnlessFree } from "../memory.ts";
import { DeviceWeights } from "../weights.ts";
import { makeHashed } from "./hashed.ts";
import { type Recipe, recipeOf, type Routing } from "./recipe.ts";
import { configJson, reduceConfig, type Reduction, SIZE_OF_ALIAS } from "./sizes.ts";

export interface SyntheticOptions extends Reduction {
  readonly seed?: number;
  readonly bits?: 4 | 8;
  readonly routing?: Routing;
  /** Makes an MTP head too. */
  readonly draftHead?: boolean;
}

export interface SyntheticModel {
  /** Set when the name could have meant something else, for people. */
  readonly note?: string;
  readonly json: Readonly<Record<string, unknown>>;
  readonly config: ModelConfig;
  readonly draftHead?: boolean;
  readonly options: Required<Pick<SyntheticOptions, "seed" | "bits" | "routing">> & Reduction;
}

/** The architecture of that name, or of the config.json of a model that is here. Throws UserError. */
export async function syntheticModel(
  name: string,
  options: SyntheticOptions,
  env: CacheEnv,
): Promise<SyntheticModel> {
  const { seed = 0, bits = 4, routing = "model", layers, experts, vocab } = options;
  const { config: whole, note } = await configOf(name, env);
  const where = `config.json of ${name}`;
  if (experts !== undefined) refuseExperts(name, experts, modelConfig(whole, where));
  const json = reduceConfig(whole, { layers, experts, vocab });
  const config = modelConfig(json, where);
  if (routing !== "model" && !config.moe) {
    throw new UserError(
      `${name} has no experts: --routing ${routing} means nothing. Leave it out.`,
    );
  }
  const all = { seed, bits, routing, layers, experts, vocab };
  const { draftHead } = options;
  return { json, config, options: all, ...note && { note }, ...draftHead && { draftHead } };
}

function refuseExperts(name: string, experts: number, { moe, topK }: ModelConfig): void {
  if (!moe) {
    throw new UserError(
      `${name} has no experts: --experts ${experts} means nothing. Leave it out.`,
    );
  }
  if (experts >= topK) return;
  throw new UserError(
    `--experts ${experts}: ${name} chooses ${topK} for each token; expected at least so many. ` +
      `Give ${topK} or more.`,
  );
}

async function configOf(
  name: string,
  env: CacheEnv,
): Promise<{ readonly config: Record<string, unknown>; readonly note?: string }> {
  const size = Object.hasOwn(SIZE_OF_ALIAS, name) ? SIZE_OF_ALIAS[name] : undefined;
  if (size) return { config: configJson(size) };
  const { path, note } = await resolveModel(name, env);
  const file = join(path, "config.json");
  try {
    return { config: JSON.parse(await Deno.readTextFile(file)), note };
  } catch (cause) {
    throw new UserError(
      `${file} cannot be read: a synthetic model takes its sizes from there. ` +
        `Give one of ${Object.keys(SIZE_OF_ALIAS).join(", ")}, or a folder with a config.json.`,
      { cause },
    );
  }
}

/** Bytes of all weights as kernels read them. */
export function syntheticBytes({ config, options, draftHead }: SyntheticModel): number {
  return weightList(config, draftHead).reduce((sum, w) => {
    const elements = w.shape.reduce((a, b) => a * b, 1);
    const { values, scales, biases } = weightBytes(recipeOf(config, w, options).format, elements);
    return sum + values + scales + biases;
  }, 0);
}

/** Makes every weight on the device. Frees what it took when it fails. */
export async function synthesise(
  device: Device,
  model: SyntheticModel,
  name: string,
  onProgress?: (p: Progress) => void,
): Promise<DeviceWeights> {
  const { config, options } = model;
  refuseUnlessFree(
    device,
    syntheticBytes(model),
    `A synthetic ${name}`,
    "Give --layers, --experts or --vocab to make it smaller.",
  );
  const made = new DeviceWeights(device);
  try {
    const list = weightList(config, model.draftHead);
    for (const [i, w] of list.entries()) {
      await makeWeight(made, w, recipeOf(config, w, options));
      onProgress?.({ stage: "making weights", done: i + 1, total: list.length });
    }
    return made;
  } catch (e) {
    made[Symbol.dispose]();
    throw e;
  }
}

/** Every weight without its values. */
export function outlined(
  device: Device,
  { config, options, draftHead }: SyntheticModel,
): DeviceWeights {
  const made = new DeviceWeights(device);
  for (const w of weightList(config, draftHead)) {
    made.outline(w.name, recipeOf(config, w, options).format, w.shape);
  }
  return made;
}

async function makeWeight(made: DeviceWeights, w: WeightSpec, recipe: Recipe): Promise<void> {
  const parts = made.add(w.name, recipe.format, w.shape);
  if (recipe.kind === "hashed") return await makeHashed(made.device, recipe, w.shape, parts);
  const bytes = recipe.kind === "parts"
    ? recipe.make()
    : packWeight(recipe.format, recipe.values());
  parts[0].memory.write(0, bytes.values);
  if (!isAffine(recipe.format)) return;
  parts[1].memory.write(0, bytes.scales);
  parts[2].memory.write(0, bytes.biases);
}
