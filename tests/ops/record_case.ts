/** A case as a tape of one record with its inputs, the memory it lies in, and what the reference makes of it. */
import type { DType, RefArray } from "../../kernels/define.ts";
import { encodeTape, type LaunchForm } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { roundTo } from "../../ffi/tape/reference.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { Arena } from "./arena.ts";
import type { OpCase } from "./op_case.ts";
import { type Parts, poisonData, randomData, shapeOf, type TensorData } from "./tensor_data.ts";
import { seeded, seedOf } from "../random.ts";

export interface RecordedCase {
  readonly tape: Uint8Array<ArrayBuffer>;
  readonly arena: Arena;
  /** Tensor name of each place of the arena, and which part of it lies there. */
  readonly owners: readonly { readonly key: string; readonly part: number }[];
}

/** Records the op at this case; every tensor is memory of its own. */
export function recordCase(c: OpCase, form: LaunchForm = "tasks"): RecordedCase {
  const tape = new Tape();
  const tensors = Object.fromEntries(
    Object.entries(c.dtypes).map(([key, dtype]) => {
      const shape = shapeOf(c, key);
      // The tape's kinds only matter to a planner of memory, and here every slot is bound by hand.
      const made = c.op.tensors[key].weight
        ? tape.weight(key, dtype, shape)
        : tape.state(key, dtype as DType, shape);
      return [key, made];
    }),
  );
  const params = Object.fromEntries(Object.keys(c.op.params).map((p) => [p, c.sizes[p]]));
  tape.emit(c.op, tensors, params);
  const arena = new Arena(form);
  const owners = tape.slots.map((slot) => {
    const spec = c.op.tensors[slot.name];
    const part = ["values", "scales", "biases"].indexOf(slot.part);
    arena.place(slot.name, slot.dtype, part, slot.bytes, !!spec.weight, spec.role !== "in");
    return { key: slot.name, part };
  });
  return { tape: encodeTape(planTape(tape), form), arena, owners };
}

export type CaseData = Readonly<Record<string, TensorData>>;

/** Seeded inputs and poisoned outputs. */
export function caseData(c: OpCase): CaseData {
  const random = seeded(seedOf(c.label));
  return Object.fromEntries(
    Object.entries(c.dtypes).map(([key, dtype]) => [
      key,
      c.op.tensors[key].role === "out"
        ? poisonData(dtype, shapeOf(c, key))
        : randomData(c, key, random),
    ]),
  );
}

/** The bytes of every place, in the arena's order. */
export function contentsOf(r: RecordedCase, data: CaseData): Parts {
  return r.owners.map(({ key, part }) => data[key].parts[part]);
}

/** The parts of each tensor, from the bytes of every place. */
export function partsByTensor(
  r: RecordedCase,
  contents: Parts,
): Record<string, Uint8Array<ArrayBuffer>[]> {
  const out: Record<string, Uint8Array<ArrayBuffer>[]> = {};
  r.owners.forEach(({ key, part }, i) => (out[key] ??= [])[part] = contents[i]);
  return out;
}

/** Runs the reference on copies; returns every tensor whose contents it settles, rounded as stored. */
export function expectedValues(c: OpCase, data: CaseData): Record<string, RefArray> {
  const arrays = Object.fromEntries(
    Object.entries(data).map(([key, d]) => [key, d.values.slice()]),
  ) as Record<string, RefArray>;
  c.op.reference(arrays as never, c.sizes as never, c.sizes);
  const out: Record<string, RefArray> = {};
  for (const [key, dtype] of Object.entries(c.dtypes)) {
    if (c.op.tensors[key].role === "in" || c.op.tensors[key].unspecified) continue;
    const a = out[key] = arrays[key];
    if (a instanceof Float64Array) roundTo(dtype, a);
  }
  return out;
}
