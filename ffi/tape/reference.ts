/**
 * The TypeScript player: runs a tape on the ops' references alone, in f64, with no native library. The
 * oracle of every other player, and slow.
 */
import type { RefArray } from "../../kernels/define.ts";
import { isAffine } from "../../kernels/formats/affine.ts";
import {
  bf16ToNumber,
  f16ToNumber,
  numberToBf16,
  numberToF16,
} from "../../kernels/formats/float.ts";
import { roundQ8 } from "../../kernels/formats/q8.ts";
import type { PlannedTape } from "./plan.ts";
import { ELEMENT_BYTES } from "./tape.ts";

/** Values of one base slot (not of a view): f64 for floats and codes, u32 for indices. */
export type ReferenceMemory = Map<number, RefArray>;

/** Rounds what a kernel would have stored in a narrower type. f32 stays f64: this is the oracle. */
export function roundTo(dtype: string, values: Float64Array): void {
  if (dtype === "f16") values.forEach((v, i) => values[i] = f16ToNumber(numberToF16(v)));
  else if (dtype === "bf16") values.forEach((v, i) => values[i] = bf16ToNumber(numberToBf16(v)));
  else if (dtype === "q8") roundQ8(values);
}

/** Allocates zeroed arrays for every base slot that `memory` does not hold yet; weights must be there. */
export function fillMemory(tape: PlannedTape, memory: ReferenceMemory): void {
  tape.slots.forEach((s, i) => {
    if (s.base !== i || s.part !== "values" || memory.has(i)) return;
    if (s.kind === "weight") throw new Error(`The reference player has no values for ${s.name}`);
    const n = s.shape.reduce((a, b) => a * b, 1);
    memory.set(i, s.dtype === "u32" ? new Uint32Array(n) : new Float64Array(n));
  });
}

/** Plays the records from..to-1 (all by default) once. */
export function playReference(
  tape: PlannedTape,
  memory: ReferenceMemory,
  from = 0,
  to = tape.records.length,
): void {
  for (const r of tape.records.slice(from, to)) {
    const arrays: Record<string, RefArray> = {};
    for (const [key, t] of Object.entries(r.tensors)) {
      const slot = tape.slots[t.slots[0]];
      const whole = memory.get(slot.base)!;
      const n = t.shape.reduce((a, b) => a * b, 1);
      const begin = isAffine(t.dtype) || t.dtype === "q8"
        ? 0
        : slot.offset / ELEMENT_BYTES[t.dtype];
      arrays[key] = whole.subarray(begin, begin + n);
    }
    r.op.reference(arrays as never, r.params as never, r.sizes);
    for (const [key, t] of Object.entries(r.tensors)) {
      if (r.op.tensors[key].role === "in") continue;
      const a = arrays[key];
      if (a instanceof Float64Array) roundTo(t.dtype, a);
    }
  }
}
