/** Synthetic checkpoints by the engine's own writer, from any config.json: what tests of files run on. */
import { writeCheckpoint } from "../engine/synthetic/write.ts";
import { type ModelConfig, parseConfig } from "../kernels/models/qwen35_config.ts";

export { ALL_SIZES, type ConfigJson, configJson, type Size } from "../engine/synthetic/sizes.ts";

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
  await writeCheckpoint(folder, { json, config, options: { seed, bits, routing: "model" } });
  return config;
}
