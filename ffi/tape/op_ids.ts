/**
 * How ops, kernels and dtypes are numbered for native code. gen.ts writes the same order into native/gen;
 * the layout hash fails when the two differ.
 */
import { DTYPE_CODES } from "../abi/layout.ts";
import { kernelNames, type Op, variantKeys } from "../../kernels/define.ts";
import { AFFINE_FORMATS } from "../../kernels/formats/affine.ts";
import { OPS } from "../../kernels/table.ts";

export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase());
}

/** Slot names of one op in record order: a weight gives three. */
export function slotNames(op: Op): string[] {
  return Object.entries(op.tensors).flatMap(([key, t]) =>
    t.weight ? [key, `${key}Scales`, `${key}Biases`] : [key]
  );
}

/** Native code of every element type: layout's, then the affine formats. */
export function dtypeCode(dtype: string): number {
  const dense = (DTYPE_CODES as readonly string[]).indexOf(dtype);
  if (dense >= 0) return dense;
  const affine = (AFFINE_FORMATS as readonly string[]).indexOf(dtype);
  if (affine < 0) throw new RangeError(`No native code for dtype ${dtype}`);
  return DTYPE_CODES.length + affine;
}

/** All kernels of all ops with the dtypes they were compiled for: index = kernel id. */
export function kernelTable(): { name: string; op: number; dtypes: string[] }[] {
  return OPS.flatMap((op, index) => {
    const keys = variantKeys(op);
    return kernelNames(op).map((name) => {
      const parts = name.slice(op.name.length + 2);
      const chosen = matchVariant(op, keys, parts);
      const dtypes = Object.entries(op.tensors).map(([key, t]) =>
        chosen[key] ?? (t.sameAs ? chosen[t.sameAs] : t.dtypes[0])
      );
      return { name, op: index, dtypes };
    });
  });
}

function matchVariant(op: Op, keys: string[], suffix: string): Record<string, string> {
  const chosen: Record<string, string> = {};
  let rest = suffix;
  for (const key of keys) {
    // Longest first: q4g16_f16 must not match as a prefix of another name.
    const d = [...op.tensors[key].dtypes].sort((a, b) => b.length - a.length)
      .find((x) => rest === x || rest.startsWith(x + "_"));
    if (!d) throw new Error(`Cannot read the variant ${suffix} of ${op.name}`);
    chosen[key] = d;
    rest = rest.slice(d.length + 1);
  }
  return chosen;
}
