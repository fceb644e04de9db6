import { defineOp } from "../../define.ts";

export const streamCopy = defineOp({
  name: "stream_copy",
  doc: "y[b,i] = x[b,i]: measures how fast memory is read and written",
  tensors: {
    x: { axes: ["blocks", "dim"], dtypes: ["u32"], role: "in" },
    y: { axes: ["blocks", "dim"], dtypes: ["u32"], role: "out" },
  },
  params: {},
  constraints: [],
  tasks: (s) => s.blocks,
  // 16 KiB each.
  simt: { threads: 256, groups: (s) => [Math.ceil(s.blocks * s.dim / 4096), 1, 1] },
  reference: ({ x, y }) => y.set(x),
  tolerance: {},
  cases: [
    { blocks: 1, dim: 1 },
    { blocks: 3, dim: 63 },
    { blocks: 5, dim: 16384 },
  ],
  fill: {
    x: (s, random) =>
      Uint32Array.from({ length: s.blocks * s.dim }, () => Math.floor(random() * 2 ** 32)),
  },
  flops: () => 0,
});
