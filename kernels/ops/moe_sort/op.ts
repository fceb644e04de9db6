import { defineOp } from "../../define.ts";

export const moeSort = defineOp({
  name: "moe_sort",
  doc:
    "order = pairs r * topK + k, stably sorted by ids[r,k]; offsets[e] .. offsets[e + 1] is the run of expert e",
  tensors: {
    ids: { axes: ["rows", "topK"], dtypes: ["u32"], role: "in" },
    order: { axes: ["pairs"], dtypes: ["u32"], role: "out" },
    offsets: { axes: ["expertsPlus1"], dtypes: ["u32"], role: "out" },
  },
  params: {},
  constraints: [
    { product: ["rows", "topK"], equals: "pairs" },
    { axis: "expertsPlus1", max: 65536 },
  ],
  tasks: () => 1,
  simt: { threads: 256, groups: () => [1, 1, 1] },
  reference: ({ ids, order, offsets }, _, { pairs, expertsPlus1 }) => {
    let at = 0;
    for (let e = 0; e < expertsPlus1; e++) {
      offsets[e] = at;
      if (e === expertsPlus1 - 1) break;
      for (let p = 0; p < pairs; p++) if (ids[p] === e) order[at++] = p;
    }
    for (let p = 0; p < pairs; p++) if (ids[p] >= expertsPlus1 - 1) order[at++] = p;
  },
  tolerance: { u32: { rel: 0, ofRms: 0 } },
  cases: [
    { rows: 1, topK: 1, pairs: 1, expertsPlus1: 2 },
    { rows: 5, topK: 3, pairs: 15, expertsPlus1: 2 },
    { rows: 17, topK: 2, pairs: 34, expertsPlus1: 7 },
    { rows: 100, topK: 8, pairs: 800, expertsPlus1: 257 },
    { rows: 512, topK: 10, pairs: 5120, expertsPlus1: 513 },
    { rows: 90, topK: 6, pairs: 540, expertsPlus1: 1700 },
  ],
  fill: {
    // Now and then an id that is no expert.
    ids: ({ pairs, expertsPlus1 }) =>
      Array.from(
        { length: pairs },
        (_, p) =>
          p % 13 === 12 ? 0xffffffff - p : (Math.imul(p + 1, 0x9e3779b1) >>> 12) % expertsPlus1,
      ),
  },
  flops: () => 0,
});
