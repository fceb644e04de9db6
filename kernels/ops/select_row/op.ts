import { defineOp } from "../../define.ts";
import { fillCommitted } from "../../shared/rounds.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

export const selectRow = defineOp({
  name: "select_row",
  doc:
    "y[0,d] = x[n-1, d], n = step.committed, at least 1 and at most rows: the last accepted row of a round",
  tensors: {
    x: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    y: { axes: ["one", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [{ axis: "one", oneOf: [1] }, { axis: "stepWords", min: STEP_WORDS }],
  tasks: () => 1,
  simt: { threads: 256, groups: (s) => [Math.ceil(s.dim / 256), 1, 1] },
  reference: ({ x, step, y }, _, { rows, dim }) => {
    const row = Math.min(Math.max(step[STEP.committed], 1), rows) - 1;
    y.set(x.subarray(row * dim, (row + 1) * dim));
  },
  tolerance: { f32: { rel: 0, ofRms: 0 } },
  cases: [
    { one: 1, rows: 1, dim: 1, committed: 0 },
    { one: 1, rows: 3, dim: 37, committed: 2 },
    { one: 1, rows: 16, dim: 2048, committed: 16 },
    { one: 1, rows: 5, dim: 260, committed: 0xffffffff },
  ].map((s) => ({ ...s, stepWords: STEP_WORDS })),
  fill: {
    step: fillCommitted,
  },
  flops: () => 0,
  touched: { x: (s) => s.dim, step: () => 1 },
});
