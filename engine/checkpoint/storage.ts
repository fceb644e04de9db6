/**
 * How the tensors of one module store a matrix: dense, or MLX affine codes whose bits follow from the
 * shapes. Checks one module against the shape that the model needs; knows no model.
 */
import type { AffineFormat, Format } from "../../kernels/formats/affine.ts";
import type { DifferenceKind } from "./differences.ts";
import type { Module, TensorAt } from "./inventory.ts";
import type { QuantizationRule } from "./quantization.ts";
import type { StoredType } from "./safetensors.ts";

export interface Stored {
  readonly format: Format;
  /** Values, or codes, scales and biases. */
  readonly parts: readonly TensorAt[];
}

export interface Misfit {
  readonly kind: DifferenceKind;
  readonly text: string;
}

const DENSE: Partial<Record<StoredType, "f32" | "f16" | "bf16">> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
};

/** Checks dense values; `shapes` are the ways in which they may be stored. */
export function denseStorage(
  module: Module,
  shapes: readonly (readonly number[])[],
): Stored | Misfit {
  const { weight } = module.parts;
  if (!weight) return { kind: "missing", text: `${module.path}.weight` };
  const format = DENSE[weight.dtype];
  if (!format) {
    const why = weight.dtype === "U32" ? `, without ${module.path}.scales` : "";
    const text = `${weight.name} is ${weight.dtype}${why}, not F32, F16 or BF16`;
    return { kind: "wrong dtype", text };
  }
  if (!shapes.some((s) => sameShape(s, weight.shape))) {
    const wanted = shapes.map(shown).join(" or ");
    return { kind: "wrong shape", text: `${weight.name} is ${shown(weight.shape)}, not ${wanted}` };
  }
  return { format, parts: [weight] };
}

/** Checks a matrix, `shape` being that of its values: quantised if it has scales, else dense. */
export function matrixStorage(
  module: Module,
  shape: readonly number[],
  rule: QuantizationRule | undefined,
): Stored | Misfit {
  const { weight, scales, biases } = module.parts;
  if (!scales) return denseStorage(module, [shape]);
  if (!weight) return { kind: "missing", text: `${module.path}.weight` };
  const other = (text: string): Misfit => ({
    kind: "quantised otherwise",
    text: `${module.path} ${text}`,
  });
  if (!biases) return other("has scales but no biases, so it is not affine");
  if (weight.dtype !== "U32") {
    const text = `${weight.name} is ${weight.dtype}, not U32, beside scales`;
    return { kind: "wrong dtype", text };
  }
  const type = scales.dtype === "BF16" ? "bf16" : scales.dtype === "F16" ? "f16" : undefined;
  if (!type || biases.dtype !== scales.dtype) {
    return other(`has ${scales.dtype} scales and ${biases.dtype} biases, not BF16 or F16 ones`);
  }
  const width = shape[shape.length - 1], lead = shape.slice(0, -1);
  const columns = scales.shape[scales.shape.length - 1] ?? 0;
  const group = width / columns;
  const fits = sameShape(scales.shape, biases.shape) &&
    sameShape(scales.shape, [...lead, columns]) &&
    Number.isInteger(group) && sameShape(weight.shape.slice(0, -1), lead);
  if (!fits) {
    const found = `${shown(weight.shape)} codes and ${shown(scales.shape)} scales`;
    return {
      kind: "wrong shape",
      text: `${weight.name} has ${found}, not those of ${shown(shape)}`,
    };
  }
  if (rule && rule.group !== group) {
    const text = `${scales.name} has groups of ${group}, config.json says groups of ${rule.group}`;
    return { kind: "wrong shape", text };
  }
  const bits = 32 * weight.shape[weight.shape.length - 1] / width;
  if (bits !== 4 && bits !== 8) return other(`has ${bits}-bit codes, not 4 or 8`);
  if (![16, 32, 64, 128].includes(group)) {
    return other(`has groups of ${group}, not 16, 32, 64 or 128`);
  }
  return { format: `q${bits}g${group}_${type}` as AffineFormat, parts: [weight, scales, biases] };
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((n, i) => n === b[i]);
}

function shown(shape: readonly number[]): string {
  return `[${shape.join(", ")}]`;
}
