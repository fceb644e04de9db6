/** Models of true sizes without weights: enough to record their tapes. */
import { mlxFormat } from "../engine/checkpoint/facts.ts";
import type { ForwardModel } from "../engine/state.ts";
import { configJson, type Size } from "../engine/synthetic/sizes.ts";
import type { Plan, WeightForm } from "../kernels/models/forward.ts";
import { type ModelConfig, parseConfig } from "../kernels/models/qwen35_config.ts";
import { weightList } from "../kernels/models/qwen35_weights.ts";

/** A model of MLX's formats without any weights; `change` replaces sizes. */
export function shapesOf(
  size: Size,
  plan: Plan = { actInt8: true, fused: false },
  change: Partial<ModelConfig> = {},
): ForwardModel {
  const config = { ...parseConfig(configJson(size), "config.json"), ...change };
  const forms = new Map(
    weightList(config).map((w): [string, WeightForm] => [w.name, {
      format: mlxFormat(4)(w),
      shape: w.shape,
      stored: w.name,
      firstRow: 0,
    }]),
  );
  return { config, forms, plan };
}
