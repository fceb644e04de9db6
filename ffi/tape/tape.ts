/**
 * Records ops once. Sizes, kernels and shapes are settled and refused here, never at replay. Owns the list
 * of records and tensors; plan.ts lays out memory, encode.ts makes bytes. Does no I/O.
 */
import {
  axesOf,
  broken,
  type DType,
  type Format,
  kernelName,
  type Op,
  type OpSpec,
  type ParamSpecs,
  type Recorder,
  type Sizes,
  type Tensor,
  type TensorSpecs,
} from "../../kernels/define.ts";
import { formatSizes, isAffine, parseAffine } from "../../kernels/formats/affine.ts";
import { q8RowBytes } from "../../kernels/formats/q8.ts";
import { AXIS_MAX } from "../abi/layout.ts";

/** What a tensor's memory is: the player's arena, the session's, or the model's. */
export type SlotKind = "scratch" | "state" | "weight";

/** One slot: a tensor's values or codes, or an affine weight's scales or biases. */
export interface Slot {
  readonly name: string;
  readonly kind: SlotKind;
  readonly dtype: DType | Format;
  readonly shape: readonly number[];
  readonly part: "values" | "scales" | "biases";
  readonly bytes: number;
  /** For a view: the slot it is part of and where it begins, in bytes. */
  readonly base: number;
  readonly offset: number;
}

/** One dispatch, as recorded. */
export interface TapeRecord {
  readonly op: Op;
  readonly kernel: string;
  /** By tensor name of the op; absent optional tensors are missing. */
  readonly tensors: Readonly<Record<string, Tensor>>;
  readonly params: Readonly<Record<string, number>>;
  /** Axes and parameters together, and the parts of an affine weight's format. */
  readonly sizes: Sizes;
  readonly tasks: number;
}

/** Bytes of one element; types that are packed in groups have none. */
export const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  f32: 4,
  u32: 4,
  f16: 2,
  bf16: 2,
  i8: 1,
};

/** Bytes of one part of a tensor. */
export function partBytes(
  dtype: DType | Format,
  shape: readonly number[],
  part: Slot["part"],
): number {
  const n = shape.reduce((a, b) => a * b, 1);
  if (isAffine(dtype)) {
    const { bits, group } = parseAffine(dtype);
    return part === "values" ? n * bits / 8 : n / group * 2;
  }
  if (dtype === "q8") {
    const row = shape[shape.length - 1];
    return n / row * q8RowBytes(row);
  }
  return n * ELEMENT_BYTES[dtype];
}

export class Tape implements Recorder {
  readonly records: TapeRecord[] = [];
  readonly slots: Slot[] = [];
  readonly #named = new Map<string, Tensor>();

  scratch(name: string, dtype: DType, shape: readonly number[]): Tensor {
    return this.#add(name, "scratch", dtype, shape);
  }

  state(name: string, dtype: DType, shape: readonly number[]): Tensor {
    return this.#once(name, "state", dtype, shape);
  }

  weight(name: string, dtype: DType | Format, shape: readonly number[]): Tensor {
    return this.#once(name, "weight", dtype, shape);
  }

  view(of: Tensor, offset: number, shape: readonly number[]): Tensor {
    if (isAffine(of.dtype) || of.dtype === "q8") {
      throw new TypeError(`Cannot view ${of.name}: ${of.dtype} has no single elements`);
    }
    const base = this.slots[of.slots[0]];
    const size = ELEMENT_BYTES[of.dtype];
    const bytes = partBytes(of.dtype, shape, "values");
    if (offset < 0 || offset * size + bytes > base.bytes) {
      throw new RangeError(`Cannot view ${of.name}: ${shape.join("x")} at ${offset} is outside it`);
    }
    this.slots.push({
      ...base,
      name: `${of.name}+${offset}`,
      shape,
      bytes,
      base: base.base,
      offset: base.offset + offset * size,
    });
    return { name: of.name, dtype: of.dtype, shape, slots: [this.slots.length - 1] };
  }

  emit<T extends TensorSpecs, P extends ParamSpecs>(
    spec: OpSpec<T, P>,
    given: { readonly [K in keyof T]?: Tensor },
    params: { readonly [K in keyof P]: number },
  ): void {
    const op = spec as unknown as Op;
    const tensors = Object.fromEntries(
      Object.entries(given).filter(([, t]) => t),
    ) as Record<string, Tensor>;
    const sizes = bindAxes(op, tensors, params);
    const dtypes = Object.fromEntries(Object.entries(tensors).map(([k, t]) => [k, t.dtype]));
    const format = Object.values(dtypes).find((d) => isAffine(d));
    for (const c of op.constraints) {
      const why = broken(c, sizes, format);
      if (why) throw new RangeError(`Cannot record ${op.name}: ${why}`);
    }
    for (const [axis, values] of Object.entries(op.specialise ?? {})) {
      if (!values.includes(sizes[axis])) {
        throw new RangeError(
          `Cannot record ${op.name}: ${axis} is ${sizes[axis]}, and there are kernels for ${
            values.join(", ")
          }`,
        );
      }
    }
    this.records.push({
      op,
      kernel: kernelName(op, dtypes, sizes),
      tensors,
      params: params as Record<string, number>,
      sizes: format ? { ...sizes, ...formatSizes(format) } : sizes,
      tasks: op.tasks(sizes),
    });
  }

  /** The slot of a state or weight by name; null when the tape does not use it. */
  find(name: string): Tensor | null {
    return this.#named.get(name) ?? null;
  }

  #once(name: string, kind: SlotKind, dtype: DType | Format, shape: readonly number[]): Tensor {
    const known = this.#named.get(name);
    if (!known) {
      const made = this.#add(name, kind, dtype, shape);
      this.#named.set(name, made);
      return made;
    }
    if (known.dtype !== dtype || known.shape.join() !== shape.join()) {
      throw new RangeError(
        `${name} is ${known.dtype}[${known.shape}] on this tape, not ${dtype}[${shape}]`,
      );
    }
    return known;
  }

  #add(name: string, kind: SlotKind, dtype: DType | Format, shape: readonly number[]): Tensor {
    const bad = shape.find((n) => !Number.isInteger(n) || n < 1 || n > AXIS_MAX);
    if (bad !== undefined) throw new RangeError(`${name} has size ${bad} in [${shape}]`);
    const at = this.slots.length;
    const parts: Slot["part"][] = isAffine(dtype) ? ["values", "scales", "biases"] : ["values"];
    parts.forEach((part, i) =>
      this.slots.push({
        name,
        kind,
        dtype,
        shape,
        part,
        bytes: partBytes(dtype, shape, part),
        base: at + i,
        offset: 0,
      })
    );
    return { name, dtype, shape, slots: parts.length === 3 ? [at, at + 1, at + 2] : [at] };
  }
}

/** Gives every axis one size, or says which two tensors disagree; checks presence, rank and dtypes. */
function bindAxes(
  op: Op,
  tensors: Readonly<Record<string, Tensor>>,
  params: Readonly<Record<string, number>>,
): Sizes {
  const sizes: Record<string, number> = {}, from: Record<string, string> = {};
  const refuse = (why: string): never => {
    throw new RangeError(`Cannot record ${op.name}: ${why}`);
  };
  for (const key of Object.keys(tensors)) if (!op.tensors[key]) refuse(`it has no tensor ${key}`);
  for (const [key, spec] of Object.entries(op.tensors)) {
    const t = tensors[key];
    if (!t) {
      if (!spec.optional) refuse(`${key} is missing`);
      continue;
    }
    if (!spec.dtypes.includes(t.dtype)) {
      refuse(`${key} is ${t.dtype}, not one of ${spec.dtypes.join(", ")}`);
    }
    if (spec.sameAs && tensors[spec.sameAs].dtype !== t.dtype) {
      refuse(`${key} is ${t.dtype} and ${spec.sameAs} is ${tensors[spec.sameAs].dtype}`);
    }
    if (t.shape.length !== spec.axes.length) {
      refuse(`${key} (${t.name}) has shape [${t.shape}], not [${spec.axes.join(", ")}]`);
    }
    spec.axes.forEach((axis, i) => {
      const size = t.shape[i];
      if (sizes[axis] !== undefined && sizes[axis] !== size) {
        refuse(`${axis} is ${sizes[axis]} in ${from[axis]} and ${size} in ${key} (${t.name})`);
      }
      sizes[axis] = size;
      from[axis] = key;
    });
  }
  for (const axis of axesOf(op)) sizes[axis] ??= 0;
  for (const [name, kind] of Object.entries(op.params)) {
    const v = params[name];
    const fits = kind === "u32" ? v >>> 0 === v : Number.isFinite(v);
    if (!fits) refuse(`parameter ${name} is ${v}`);
    sizes[name] = v;
  }
  return sizes;
}
