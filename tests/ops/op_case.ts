/**
 * One op at one dtype variant and one size: what the parity tests enumerate. Owns the choice of cases, no
 * data and no device.
 */
import {
  axesOf,
  broken,
  type DType,
  type Format,
  kernelName,
  type Op,
  type Sizes,
  variantKeys,
} from "../../kernels/define.ts";
import { formatSizes, isAffine } from "../../kernels/formats/affine.ts";

export type Dtypes = Readonly<Record<string, DType | Format>>;

export interface OpCase {
  readonly op: Op;
  /** Of every tensor that is present. */
  readonly dtypes: Dtypes;
  /** Axes and parameters; for an affine weight also bits, group and f16Scales, as references read them. */
  readonly sizes: Sizes;
  readonly kernel: string;
  readonly label: string;
}

/** Every choice of dtypes for the tensors whose dtype is free. */
export function variantsOf(op: Op): Dtypes[] {
  let all: Record<string, DType | Format>[] = [{}];
  for (const key of variantKeys(op)) {
    all = all.flatMap((v) => op.tensors[key].dtypes.map((d) => ({ ...v, [key]: d })));
  }
  return all;
}

/** The case of these sizes, or null where the op refuses them at this variant. */
export function opCase(op: Op, variant: Dtypes, given: Sizes): OpCase | null {
  // A case may hold more than axes and parameters: what its `fill` asks for.
  const sizes: Record<string, number> = { ...given };
  for (const axis of axesOf(op)) sizes[axis] = given[axis] ?? 0;
  for (const name of Object.keys(op.params)) {
    // As the record holds it.
    sizes[name] = op.params[name] === "f32" ? Math.fround(given[name]) : given[name];
  }
  const dtypes: Record<string, DType | Format> = {};
  for (const [key, spec] of Object.entries(op.tensors)) {
    if (spec.optional && spec.axes.some((a) => sizes[a] === 0)) continue;
    dtypes[key] = variant[key] ?? (spec.sameAs ? variant[spec.sameAs] : spec.dtypes[0]);
  }
  const format = Object.values(dtypes).find((d) => isAffine(d));
  if (op.constraints.some((c) => broken(c, sizes, format))) return null;
  const kernel = kernelName(op, dtypes, sizes);
  if (format) Object.assign(sizes, formatSizes(format));
  const text = Object.entries(given).map(([k, v]) => `${k}=${v}`).join(" ");
  return { op, dtypes, sizes, kernel, label: `${kernel} (${text})` };
}

/** The tested cases of an op: each of its sizes at each dtype variant that takes it. */
export function casesOf(op: Op): OpCase[] {
  return variantsOf(op).flatMap((v) => op.cases.flatMap((sizes) => opCase(op, v, sizes) ?? []));
}

export function flopsOf(c: OpCase): number {
  return c.op.flops(c.sizes, { pos: 0 });
}
