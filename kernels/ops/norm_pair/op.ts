import { defineOp } from "../../define.ts";
import { normRow } from "../../shared/norm.ts";

export const normPair = defineOp({
  name: "norm_pair",
  doc: "y[r] = rms_norm(a[r]) * wA ++ rms_norm(b[r]) * wB: the input of an MTP head",
  tensors: {
    a: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    b: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    wA: { axes: ["dim"], dtypes: ["f32"], role: "in" },
    wB: { axes: ["dim"], dtypes: ["f32"], role: "in" },
    y: { axes: ["rows", "twoDim"], dtypes: ["f32"], role: "out" },
  },
  params: { eps: "f32" },
  constraints: [{ product: [2, "dim"], equals: "twoDim" }],
  tasks: (s) => s.rows,
  simt: { threads: 256, groups: (s) => [s.rows, 2, 1] },
  reference: ({ a, b, wA, wB, y }, { eps }, { rows, dim }) => {
    for (let r = 0; r < rows; r++) {
      const at = 2 * r * dim, row = (t: Float64Array) => t.subarray(r * dim, (r + 1) * dim);
      normRow(row(a), wA, y.subarray(at, at + dim), eps);
      normRow(row(b), wB, y.subarray(at + dim, at + 2 * dim), eps);
    }
  },
  tolerance: { f32: { rel: 6e-7, ofRms: 2e-7 } },
  cases: [
    { rows: 1, dim: 1, twoDim: 2, eps: 1e-6 },
    { rows: 3, dim: 37, twoDim: 74, eps: 1e-6 },
    { rows: 16, dim: 2048, twoDim: 4096, eps: 1e-6 },
    { rows: 33, dim: 5121, twoDim: 10242, eps: 1e-5 },
  ],
  flops: (s) => 8 * s.rows * s.dim,
});
