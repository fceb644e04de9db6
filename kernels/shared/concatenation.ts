/**
 * What gemv and gemm in their exact and int8 forms share in TypeScript: one activation against up to
 * four weights that lie one behind the other in the output columns, w0 | w1 | w2 | w3.
 */
import type { Constraint, Sizes, TensorSpec } from "../define.ts";
import { AFFINE_FORMATS, type Format, WEIGHT_FORMATS } from "../formats/affine.ts";

/** Rows of a weight that one task of gemv or of an expert op multiplies: ROWS_PER_TASK of weight_rows.h. */
export const ROWS_PER_TASK = 32;

function weightSpecs<const F extends Format>(dtypes: readonly F[]) {
  const further = (axis: string) =>
    ({
      axes: [axis, "inDim"],
      dtypes,
      role: "in",
      weight: true,
      optional: true,
      sameAs: "w0",
    }) satisfies TensorSpec;
  return {
    w0: { axes: ["out0", "inDim"], dtypes, role: "in", weight: true } satisfies TensorSpec,
    w1: further("out1"),
    w2: further("out2"),
    w3: further("out3"),
  };
}

export const CONCATENATED_WEIGHTS = weightSpecs(WEIGHT_FORMATS);
export const CONCATENATED_AFFINE_WEIGHTS = weightSpecs(AFFINE_FORMATS);

export const COLUMNS_FIT: Constraint = {
  sum: ["yCol", "out0", "out1", "out2", "out3"],
  atMost: "yStride",
};

/** Columns that one row of y gets. */
export function outDim(s: Sizes): number {
  return s.out0 + s.out1 + s.out2 + s.out3;
}

/** y[r, yCol + o] = sum_i x[r,i] * w[o,i], o over the concatenation. */
export function multiplyConcatenated(
  x: Float64Array,
  weights: readonly Float64Array[],
  y: Float64Array,
  s: Sizes,
): void {
  const outs = [s.out0, s.out1, s.out2, s.out3];
  for (let r = 0; r < s.rows; r++) {
    let at = r * s.yStride + s.yCol;
    outs.forEach((out, m) => {
      for (let o = 0; o < out; o++) {
        let sum = 0;
        for (let i = 0; i < s.inDim; i++) sum += x[r * s.inDim + i] * weights[m][o * s.inDim + i];
        y[at++] = sum;
      }
    });
  }
}
