import { defineOp } from "../../define.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

export const argmax = defineOp({
  name: "argmax",
  doc:
    "picked[r] = lowest index of the maximum of logits[r, 0:min(vocab, step.vocabUsed)], NaN passed over",
  tensors: {
    logits: { axes: ["rows", "vocab"], dtypes: ["f32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    picked: { axes: ["rows"], dtypes: ["u32"], role: "out" },
  },
  params: {},
  constraints: [{ axis: "stepWords", min: STEP_WORDS }],
  tasks: (s) => s.rows,
  simt: { threads: 1024, groups: (s) => [s.rows, 1, 1] },
  reference: ({ logits, step, picked }, _, { rows, vocab }) => {
    const used = Math.min(vocab, step[STEP.vocabUsed]);
    for (let r = 0; r < rows; r++) {
      let best = -1;
      for (let i = 0; i < used; i++) {
        const x = logits[r * vocab + i];
        if (!Number.isNaN(x) && (best < 0 || x > logits[r * vocab + best])) best = i;
      }
      picked[r] = Math.max(best, 0);
    }
  },
  tolerance: {},
  cases: [
    { rows: 1, vocab: 1, stepWords: 64 },
    { rows: 3, vocab: 37, stepWords: 64 },
    { rows: 2, vocab: 1025, stepWords: 64 },
    { rows: 16, vocab: 4099, stepWords: 70 },
    { rows: 1, vocab: 248320, stepWords: 64 },
  ],
  fill: {
    // Few distinct values, so that ties are common, with a NaN and an infinity here and there.
    logits: (s, random) =>
      Float64Array.from({ length: s.rows * s.vocab }, () => {
        const x = random();
        return x > 0.999 ? NaN : x < 0.002 ? -Infinity : Math.floor(x * 50) / 8;
      }),
    step: (s) => {
      const step = new Uint32Array(s.stepWords);
      step[STEP.vocabUsed] = s.vocab > 30 ? s.vocab - 7 : s.vocab;
      return step;
    },
  },
  flops: (s) => s.rows * s.vocab,
  touched: { step: () => 1 },
});
