/** Bytes and floating point operations of a tape, counted from its records: what the limit is made of. */
import type { Traffic } from "../../kernels/define.ts";
import type { PlannedTape } from "./plan.ts";
import { partBytes, type Slot, type TapeRecord } from "./tape.ts";

/** Where bytes belong. `control` is the step block, token ids and results read by the host. */
export type Part = "weights" | "kv" | "recurrent" | "control" | "scratch";

export interface Cost {
  readonly bytes: Readonly<Record<Part, number>>;
  readonly flops: number;
}

/** Names of state tensors decide their part: `kv.*` caches, `gdn.*` and `conv.*` recurrent state. */
export function partOf(slot: Slot): Part {
  if (slot.kind === "weight") return "weights";
  if (slot.kind === "scratch") return "scratch";
  if (slot.name.startsWith("kv.")) return "kv";
  if (slot.name.startsWith("gdn.") || slot.name.startsWith("conv.")) return "recurrent";
  return "control";
}

/** Cost of one record. A tensor that is read and written counts twice. */
export function costOfRecord(r: TapeRecord, slots: readonly Slot[], at: Traffic): Cost {
  const bytes = { weights: 0, kv: 0, recurrent: 0, control: 0, scratch: 0 };
  for (const [key, spec] of Object.entries(r.op.tensors)) {
    const t = r.tensors[key];
    if (!t) continue;
    const elements = t.shape.reduce((a, b) => a * b, 1);
    const touched = r.op.touched?.[key]?.(r.sizes, at) ?? elements;
    const parts: Slot["part"][] = ["values", "scales", "biases"];
    const whole = t.slots.reduce((sum, _, i) => sum + partBytes(t.dtype, t.shape, parts[i]), 0);
    const passes = spec.role === "inout" && !r.op.touched?.[key] ? 2 : 1;
    bytes[partOf(slots[t.slots[0]])] += whole * touched / elements * passes;
  }
  return { bytes, flops: r.op.flops(r.sizes, at) };
}

export function costOfTape(tape: PlannedTape, at: Traffic): Cost {
  const bytes = { weights: 0, kv: 0, recurrent: 0, control: 0, scratch: 0 };
  let flops = 0;
  for (const r of tape.records) {
    const c = costOfRecord(r, tape.slots, at);
    for (const part of Object.keys(bytes) as Part[]) bytes[part] += c.bytes[part];
    flops += c.flops;
  }
  return { bytes, flops };
}
