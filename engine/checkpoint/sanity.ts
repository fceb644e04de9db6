/** Cheap looks at loaded values that catch checkpoints converted wrongly: warnings, never refusals. */
import { shownName } from "../errors.ts";
import type { PlannedWeight, WeightPlan } from "./weights.ts";

export interface ValueCheck {
  /** Mean of the first layer's input norm: near 1 when stored and read rightly. */
  readonly normMean: number;
  readonly warnings: readonly string[];
}

/** Looks at the first norm and at all decays. */
export async function checkValues(plan: WeightPlan): Promise<ValueCheck> {
  const warnings: string[] = [];
  const norm = await valuesOf(plan.weights.find((w) => w.name === "layers.0.inputNorm"));
  const normMean = norm.reduce((sum, v) => sum + v, 0) / norm.length;
  if (!(normMean > 0.5 && normMean < 2)) {
    const why = plan.norms.centred ? "it may hold the 1 already" : "it may lack the 1";
    const mean = normMean.toPrecision(3);
    warnings.push(
      `layers.0.inputNorm has mean ${mean}, not about 1: ${why} (${plan.norms.evidence})`,
    );
  }
  for (const w of plan.weights.filter((w) => w.name.endsWith(".gdn.negA"))) {
    const decays = await valuesOf(w);
    if (!decays.every((v) => v < 0 && v > -Infinity)) {
      warnings.push(`${shownName(w.name)} holds values that are no decays: A_log may be damaged`);
    }
  }
  return { normMean, warnings };
}

function valuesOf(w: PlannedWeight | undefined): Promise<Float32Array> {
  if (w?.source.kind !== "computed") throw new Error(`No computed weight: ${w?.name}`);
  return w.source.make();
}
