import { defineOp } from "../../define.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

export const tokenNll = defineOp({
  name: "token_nll",
  doc:
    "nll[r] = logsumexp(logits[r, 0:step.vocabUsed]) - logits[r, history[step.pos + first + r + 1]]; 0 where that token does not exist",
  tensors: {
    logits: { axes: ["rows", "vocab"], dtypes: ["f32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    history: { axes: ["ctx"], dtypes: ["u32"], role: "in" },
    nll: { axes: ["rows"], dtypes: ["f32"], role: "out" },
  },
  params: { first: "u32" },
  constraints: [{ axis: "stepWords", min: STEP_WORDS }],
  tasks: (s) => s.rows,
  simt: { threads: 256, groups: (s) => [s.rows, 1, 1] },
  reference: ({ logits, step, history, nll }, { first }, { rows, vocab, ctx }) => {
    const used = Math.min(vocab, step[STEP.vocabUsed]);
    for (let r = 0; r < rows; r++) {
      const at = step[STEP.pos] + first + r + 1;
      if (at >= ctx || history[at] >= used) {
        nll[r] = 0;
        continue;
      }
      const x = logits.subarray(r * vocab, r * vocab + used);
      let max = -Infinity, sum = 0;
      for (const v of x) max = Math.max(max, v);
      for (const v of x) sum += Math.exp(v - max);
      nll[r] = max + Math.log(sum) - x[history[at]];
    }
  },
  tolerance: { f32: { rel: 3e-7, ofRms: 1e-7 } },
  cases: [
    { rows: 1, vocab: 1, stepWords: 64, ctx: 2, first: 0 },
    { rows: 5, vocab: 37, stepWords: 64, ctx: 9, first: 1 },
    { rows: 3, vocab: 1025, stepWords: 64, ctx: 50, first: 0 },
    { rows: 16, vocab: 4099, stepWords: 70, ctx: 100, first: 16 },
    { rows: 2, vocab: 248320, stepWords: 64, ctx: 10, first: 0 },
  ],
  fill: {
    logits: (s, random) =>
      Float64Array.from({ length: s.rows * s.vocab }, () => 20 * random() * random()),
    step: (s) => {
      const step = new Uint32Array(s.stepWords);
      step[STEP.pos] = s.ctx >> 2;
      step[STEP.vocabUsed] = s.vocab > 30 ? s.vocab - 3 : s.vocab;
      return step;
    },
    history: (s, random) =>
      Uint32Array.from({ length: s.ctx }, () => Math.floor(Math.abs(random()) * s.vocab)),
  },
  flops: (s) => 4 * s.rows * s.vocab,
  touched: { step: () => 2, history: (s) => s.rows },
});
