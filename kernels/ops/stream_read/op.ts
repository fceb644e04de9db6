import { defineOp } from "../../define.ts";

/** The sum makes every word needed; u32 adds are exact in any order and no word is slow to add. */
export const streamRead = defineOp({
  name: "stream_read",
  doc: "y[b] = sum_i x[b,i] modulo 2^32: measures how fast memory is read",
  tensors: {
    x: { axes: ["blocks", "dim"], dtypes: ["u32"], role: "in" },
    y: { axes: ["blocks"], dtypes: ["u32"], role: "out" },
  },
  params: {},
  constraints: [],
  tasks: (s) => s.blocks,
  simt: { threads: 256, groups: (s) => [s.blocks, 1, 1] },
  reference: ({ x, y }, _, { blocks, dim }) => {
    for (let b = 0; b < blocks; b++) {
      let sum = 0;
      for (let i = 0; i < dim; i++) sum = (sum + x[b * dim + i]) >>> 0;
      y[b] = sum;
    }
  },
  tolerance: {},
  cases: [
    { blocks: 1, dim: 1 },
    { blocks: 3, dim: 63 },
    { blocks: 2, dim: 129 },
    { blocks: 5, dim: 16384 },
  ],
  fill: {
    x: (s, random) =>
      Uint32Array.from({ length: s.blocks * s.dim }, () => Math.floor(random() * 2 ** 32)),
  },
  flops: () => 0,
});
