import { defineOp } from "../../define.ts";
import { WEIGHT_FORMATS } from "../../formats/affine.ts";
import { STEP } from "../../step.ts";

export const embed = defineOp({
  name: "embed",
  doc: "y[r,d] = table[history[step.pos + ahead + r], d]; zeros for a position or id outside",
  tensors: {
    history: { axes: ["ctx"], dtypes: ["u32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    table: { axes: ["vocab", "dim"], dtypes: WEIGHT_FORMATS, role: "in", weight: true },
    y: { axes: ["rows", "dim"], dtypes: ["f32"], role: "out" },
  },
  params: { ahead: "u32" },
  constraints: [{ axis: "stepWords", min: 64 }, { axis: "dim", multipleOf: "group" }],
  tasks: (s) => s.rows,
  simt: { threads: 128, groups: (s) => [s.rows, Math.ceil(s.dim / (4 * 128)), 1] },
  reference: ({ history, step, table, y }, { ahead }, { ctx, vocab, rows, dim }) => {
    for (let r = 0; r < rows; r++) {
      const pos = step[STEP.pos] + ahead + r;
      const id = pos < ctx ? history[pos] : vocab;
      for (let d = 0; d < dim; d++) y[r * dim + d] = id < vocab ? table[id * dim + d] : 0;
    }
  },
  tolerance: { f32: { rel: 2.5e-7, ofRms: 2e-8 } },
  cases: [
    { ctx: 1, stepWords: 64, vocab: 1, rows: 1, dim: 16, ahead: 0 },
    { ctx: 9, stepWords: 64, vocab: 5, rows: 3, dim: 37, ahead: 1 },
    { ctx: 8, stepWords: 64, vocab: 7, rows: 9, dim: 192, ahead: 0 },
    { ctx: 40, stepWords: 64, vocab: 300, rows: 17, dim: 2048, ahead: 0 },
    { ctx: 7, stepWords: 64, vocab: 9, rows: 2, dim: 64, ahead: 0xffffffff },
  ],
  fill: {
    // Every eighth id is the first one outside the table.
    history: ({ ctx, vocab }) =>
      Array.from({ length: ctx }, (_, p) => p % 8 === 7 ? vocab : p * 37 % vocab),
    step: ({ stepWords, ctx }) =>
      Array.from({ length: stepWords }, (_, w) => w === STEP.pos ? Math.floor(ctx / 4) : 0),
  },
  flops: (s) => 2 * s.rows * s.dim,
  touched: {
    history: (s) => s.rows,
    step: () => 1,
    table: (s) => Math.min(s.rows, s.vocab) * s.dim,
  },
});
