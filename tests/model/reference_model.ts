/** Runs a model's forward pass on the ops' references alone: the weights of a loaded model, in f64. */
import type { LoadedModel } from "../../engine/model.ts";
import { planForward } from "../../engine/state.ts";
import { fillMemory, playReference, type ReferenceMemory } from "../../ffi/tape/reference.ts";
import type { PlannedTape } from "../../ffi/tape/plan.ts";
import type { TapeRecord } from "../../ffi/tape/tape.ts";
import { unpackWeight } from "../../kernels/formats/affine.ts";
import { STEP } from "../../kernels/step.ts";

/** Weight values by stored name. */
export type Weights = Map<string, Float64Array>;

/** Reads and widens every weight that the tape binds. */
export function readWeights(model: LoadedModel, planned: PlannedTape): Weights {
  const out: Weights = new Map();
  for (const s of planned.slots) {
    if (s.kind !== "weight" || s.part !== "values") continue;
    const read = (part: "values" | "scales" | "biases") => {
      const b = model.binding(s.name, part), bytes = new Uint8Array(b.bytes);
      b.memory.read(b.offset, bytes);
      return bytes;
    };
    const quantised = s.dtype.startsWith("q");
    const values = unpackWeight(s.dtype as Parameters<typeof unpackWeight>[0], {
      values: read("values"),
      scales: quantised ? read("scales") : new Uint8Array(0),
      biases: quantised ? read("biases") : new Uint8Array(0),
    });
    out.set(s.name, values);
  }
  return out;
}

/** Tape of one forward pass over `rows` prompt tokens with logits of all of them. */
export function planLogits(model: LoadedModel, rows: number): PlannedTape {
  return planForward(model, {
    rows,
    ctx: 256,
    keys: 256,
    kv: "f32",
    output: "logits",
    plan: { actInt8: false, fused: false },
  });
}

/** Logits of all rows in f64. `change` may replace records before they are played. */
export function referenceLogits(
  planned: PlannedTape,
  weights: Weights,
  ids: Uint32Array,
  change: (r: TapeRecord) => TapeRecord = (r) => r,
): Float64Array {
  const memory: ReferenceMemory = new Map();
  planned.slots.forEach((s, i) => {
    if (s.kind === "weight" && s.part === "values" && s.base === i) {
      memory.set(i, weights.get(s.name)!);
    }
  });
  fillMemory(planned, memory);
  const slot = (name: string) => planned.slots.findIndex((s) => s.name === name);
  const step = memory.get(slot("step"))!;
  step[STEP.ctx] = 256;
  step[STEP.vocabUsed] = 1 << 20;
  memory.get(slot("history"))!.set(ids);
  playReference({ ...planned, records: planned.records.map(change) }, memory);
  return memory.get(slot("logits")) as Float64Array;
}
