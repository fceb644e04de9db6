/**
 * What an op is, before any backend: named axes, named tensors, constraints, a slow reference.
 * Pure data and arithmetic: no Deno API and no import from outside kernels/, so all of it runs
 * without a device. It does not know tapes, memory or native code.
 */
import { type Format, isAffine } from "./formats/affine.ts";

/** Element types of activations, caches and indices. `q8` is the quantised KV row (formats/q8.ts). */
export type DType = "f32" | "f16" | "bf16" | "q8" | "i8" | "u32";
export type { Format };

/** One tensor of an op: axis names (row-major, innermost last) and the dtypes its kernels exist for. */
export interface TensorSpec {
  readonly axes: readonly string[];
  readonly dtypes: readonly (DType | Format)[];
  readonly role: "in" | "out" | "inout";
  /** A weight takes three slots: values or codes, scales, biases (the last two unused when dense). */
  readonly weight?: true;
  /** The record may leave this tensor out; axes that only it names are then 0. */
  readonly optional?: true;
  /** Must have the dtype of this other tensor, so it does not multiply the variants. */
  readonly sameAs?: string;
  /** Working memory (role inout): what it holds behind the op is nobody's business, and references leave it alone. */
  readonly unspecified?: true;
}

/** Axis sizes and parameters by name, as bound when a record is made. */
export type Sizes = Readonly<Record<string, number>>;

/** A summand: one axis, or a product such as `["vHeads", "headDim"]`. */
export type Term = string | readonly (string | number)[];

/**
 * A condition on axes and u32 parameters; `multipleOf` takes a number, another axis, or "group" for the
 * group of the record's weight format. It is checked when an op is recorded and again, from a
 * generated table, when native code loads the tape: what it names may index memory.
 */
export type Constraint =
  | { readonly sum: readonly Term[]; readonly atMost: string | number }
  | { readonly sum: readonly Term[]; readonly equals: string }
  | { readonly product: readonly (string | number)[]; readonly equals: string }
  | { readonly product: readonly (string | number)[]; readonly atLeast: string }
  | { readonly axis: string; readonly multipleOf: number | string }
  | { readonly axis: string; readonly oneOf: readonly number[] }
  | { readonly axis: string; readonly min?: number; readonly max?: number };

/** What a reference computes on: floats widened to f64, weights dequantised to f64, indices as u32. */
export type RefArray = Float64Array | Uint32Array;

/** Run-time facts that decide how many bytes a record moves; a tape holds none of them. */
export interface Traffic {
  /** Tokens already in the KV cache before this play. */
  readonly pos: number;
  /** Distinct experts that the rows of one layer select; undefined: as many as rows * topK allow. */
  readonly distinctExperts?: number;
}

/** Makes the inputs of a parity case: only for tensors where random normal values do not make sense. */
export type Fill = (s: Sizes, random: () => number) => ArrayLike<number>;

export type TensorSpecs = Readonly<Record<string, TensorSpec>>;
export type ParamSpecs = Readonly<Record<string, "u32" | "f32">>;

/**
 * The launch of a .metal kernel: threads of a threadgroup (a multiple of 32, known when the kernel is compiled)
 * and the grid of threadgroups; or why there is no such kernel.
 */
export type Simt =
  | {
    readonly threads: number;
    readonly groups: (s: Sizes) => readonly [x: number, y: number, z: number];
  }
  | { readonly none: string };

export interface OpSpec<T extends TensorSpecs = TensorSpecs, P extends ParamSpecs = ParamSpecs> {
  /** snake_case; also the folder, the C argument struct and the stem of every kernel name. */
  readonly name: string;
  /** One line: the formula, with index letters. */
  readonly doc: string;
  readonly tensors: T;
  readonly params: P;
  /** Axes that kernels are compiled for, and their values: part of the kernel's name. */
  readonly specialise?: Readonly<Record<string, readonly number[]>>;
  readonly constraints: readonly Constraint[];
  /** Independent tasks of one record on the CPU player; task t is any of 0..tasks-1, in any order. */
  readonly tasks: (s: Sizes) => number;
  /** How players with threadgroups launch the op's .metal kernel. */
  readonly simt: Simt;
  /** Plain loops in the order of the formula, in f64: the oracle of every kernel. */
  readonly reference: (
    t: {
      readonly [K in keyof T]: T[K]["dtypes"][number] extends "u32" ? Uint32Array : Float64Array;
    },
    p: Readonly<Record<keyof P, number>>,
    s: Sizes,
  ) => void;
  /** |kernel - reference| <= rel * |reference| + ofRms * rms(reference), per dtype of the output. */
  readonly tolerance: Partial<Record<DType, { readonly rel: number; readonly ofRms: number }>>;
  /** Sizes and parameters of the parity test, edge sizes first; run for every dtype variant. */
  readonly cases: readonly Sizes[];
  readonly fill?: Readonly<Record<string, Fill>>;
  /** Floating point operations of one record (a multiply-add counts 2). */
  readonly flops: (s: Sizes, at: Traffic) => number;
  /** Elements really touched, where that is not the whole tensor (gathers, caches at depth). */
  readonly touched?: Readonly<Record<string, (s: Sizes, at: Traffic) => number>>;
}

export type Op = OpSpec;

/** Declares an op; identity at run time, types tensors and parameters for the reference. */
export function defineOp<const T extends TensorSpecs, const P extends ParamSpecs>(
  spec: OpSpec<T, P>,
): OpSpec<T, P> {
  return spec;
}

/** A named region of memory with a shape, as a model file sees it. */
export interface Tensor {
  readonly name: string;
  readonly dtype: DType | Format;
  readonly shape: readonly number[];
  /** Slot of the values or codes; for affine weights also those of scales and biases. */
  readonly slots: readonly [number] | readonly [number, number, number];
}

/** What a model's record function writes to; ffi/tape implements it. */
export interface Recorder {
  /** Memory that lives only inside one play; the planner may let tensors share it. */
  scratch(name: string, dtype: DType, shape: readonly number[]): Tensor;
  /** Memory that outlives a play: caches, recurrent state, the step block, results read by the host. */
  state(name: string, dtype: DType, shape: readonly number[]): Tensor;
  /** A weight or constant bound at load. */
  weight(name: string, dtype: DType | Format, shape: readonly number[]): Tensor;
  /** Part of a dense tensor: `offset` elements in, with its own shape. */
  view(of: Tensor, offset: number, shape: readonly number[]): Tensor;
  emit<T extends TensorSpecs, P extends ParamSpecs>(
    op: OpSpec<T, P>,
    tensors: { readonly [K in keyof T]?: Tensor },
    params: { readonly [K in keyof P]: number },
  ): void;
}

/** Axis names in order of first use: with the parameters behind them, the words of a record. */
export function axesOf(op: Op): string[] {
  return [...new Set(Object.values(op.tensors).flatMap((t) => t.axes))];
}

/** Tensors whose dtype is free, in declared order: their dtypes name the kernel. */
export function variantKeys(op: Op): string[] {
  return Object.entries(op.tensors)
    .filter(([, t]) => t.dtypes.length > 1 && !t.sameAs)
    .map(([key]) => key);
}

/** The one place where a kernel gets its name: `gemv__q4g64_bf16`, `attn_decode__f16_d256`. */
export function kernelName(op: Op, dtypes: Readonly<Record<string, string>>, s: Sizes): string {
  const parts = variantKeys(op).map((key) => dtypes[key]);
  for (const axis of Object.keys(op.specialise ?? {})) parts.push(`${axis[0]}${s[axis]}`);
  return parts.length ? `${op.name}__${parts.join("_")}` : op.name;
}

/** Every kernel that an op promises, in a fixed order. */
export function kernelNames(op: Op): string[] {
  let choices: { dtypes: Record<string, string>; sizes: Record<string, number> }[] = [
    { dtypes: {}, sizes: {} },
  ];
  for (const key of variantKeys(op)) {
    choices = choices.flatMap((c) =>
      op.tensors[key].dtypes.map((d) => ({ ...c, dtypes: { ...c.dtypes, [key]: d } }))
    );
  }
  for (const [axis, values] of Object.entries(op.specialise ?? {})) {
    choices = choices.flatMap((c) =>
      values.map((v) => ({ ...c, sizes: { ...c.sizes, [axis]: v } }))
    );
  }
  return choices.map((c) => kernelName(op, c.dtypes, c.sizes));
}

/** Says why sizes break a constraint, or null. `format` is the record's weight format, if any. */
export function broken(c: Constraint, s: Sizes, format: string | undefined): string | null {
  const value = (x: string | number) => typeof x === "number" ? x : s[x];
  if ("sum" in c) {
    const product = (t: Term) =>
      typeof t === "string" ? s[t] : t.reduce<number>((a, x) => a * value(x), 1);
    const sum = c.sum.reduce((a, t) => a + product(t), 0);
    const shown = c.sum.map((t) => typeof t === "string" ? t : t.join(" * ")).join(" + ");
    if ("equals" in c) {
      return sum === s[c.equals] ? null : `${shown} is ${sum}, not ${c.equals} (${s[c.equals]})`;
    }
    return sum <= value(c.atMost)
      ? null
      : `${shown} is ${sum}, more than ${c.atMost} (${value(c.atMost)})`;
  }
  if ("product" in c) {
    const product = c.product.reduce<number>((a, x) => a * value(x), 1);
    if ("equals" in c) {
      return product === s[c.equals]
        ? null
        : `${c.product.join(" * ")} is ${product}, not ${c.equals} (${s[c.equals]})`;
    }
    return product >= s[c.atLeast]
      ? null
      : `${c.product.join(" * ")} is ${product}, less than ${c.atLeast} (${s[c.atLeast]})`;
  }
  const v = s[c.axis];
  if ("multipleOf" in c) {
    const unit = c.multipleOf === "group"
      ? (format && isAffine(format) ? groupOf(format) : 1)
      : value(c.multipleOf);
    return v % unit === 0 ? null : `${c.axis} is ${v}, not a multiple of ${unit}`;
  }
  if ("oneOf" in c) {
    return c.oneOf.includes(v) ? null : `${c.axis} is ${v}, not one of ${c.oneOf.join(", ")}`;
  }
  if (c.min !== undefined && v < c.min) return `${c.axis} is ${v}, less than ${c.min}`;
  if (c.max !== undefined && v > c.max) return `${c.axis} is ${v}, more than ${c.max}`;
  return null;
}

function groupOf(format: string): number {
  return Number(/g(\d+)_/.exec(format)![1]);
}
