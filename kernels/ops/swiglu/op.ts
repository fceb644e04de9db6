import { defineOp } from "../../define.ts";
import { silu } from "../../shared/experts.ts";

/** Columns of one task. */
const CHUNK = 1024;

/** Columns of one threadgroup: four a thread. */
const COLUMNS = 4 * 256;

export const swiglu = defineOp({
  name: "swiglu",
  doc: "h[r,j] = silu(gu[r,j]) * gu[r, ffn + j]",
  tensors: {
    gu: { axes: ["rows", "guStride"], dtypes: ["f32"], role: "in" },
    h: { axes: ["rows", "ffn"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [{ sum: ["ffn", "ffn"], atMost: "guStride" }],
  tasks: (s) => s.rows * Math.ceil(s.ffn / CHUNK),
  simt: { threads: 256, groups: (s) => [Math.ceil(s.ffn / COLUMNS), s.rows, 1] },
  reference: ({ gu, h }, _, { rows, guStride, ffn }) => {
    for (let r = 0; r < rows; r++) {
      const at = r * guStride;
      for (let j = 0; j < ffn; j++) h[r * ffn + j] = silu(gu[at + j]) * gu[at + ffn + j];
    }
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 1e-7 } },
  cases: [
    { rows: 1, guStride: 2, ffn: 1 },
    { rows: 3, guStride: 75, ffn: 37 },
    { rows: 17, guStride: 2100, ffn: 1025 },
    { rows: 2, guStride: 34816, ffn: 17408 },
  ],
  flops: (s) => 4 * s.rows * s.ffn,
  touched: { gu: (s) => 2 * s.rows * s.ffn },
});
