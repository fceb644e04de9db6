import { defineOp } from "../../define.ts";
import { DRAFTS_MAX, STEP, STEP_WORDS } from "../../step.ts";

export const draftAppend = defineOp({
  name: "draft_append",
  doc:
    "history[step.pos + 1 + index] = picked, step.drafts = index + 1: a draft token for the next round",
  tensors: {
    picked: { axes: ["one"], dtypes: ["u32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "inout" },
    history: { axes: ["ctx"], dtypes: ["u32"], role: "inout" },
  },
  params: { index: "u32" },
  constraints: [
    { axis: "one", oneOf: [1] },
    { axis: "stepWords", min: STEP_WORDS },
    { axis: "index", max: DRAFTS_MAX - 1 },
  ],
  tasks: () => 1,
  simt: { threads: 32, groups: () => [1, 1, 1] },
  reference: ({ picked, step, history }, { index }, { ctx }) => {
    const at = step[STEP.pos] + 1 + index;
    if (at < ctx) history[at] = picked[0];
    step[STEP.drafts] = index + 1;
  },
  tolerance: {},
  cases: [
    { one: 1, stepWords: STEP_WORDS, ctx: 20, index: 0 },
    { one: 1, stepWords: STEP_WORDS, ctx: 20, index: 14 },
    { one: 1, stepWords: STEP_WORDS, ctx: 9, index: 4 },
    { one: 1, stepWords: STEP_WORDS, ctx: 1, index: 1 },
  ],
  fill: {
    picked: () => [1234],
    history: (s) => Uint32Array.from({ length: s.ctx }, (_, p) => p),
    step: (s) => Uint32Array.from({ length: s.stepWords }, (_, w) => w === STEP.pos ? 4 : w),
  },
  flops: () => 0,
  touched: { step: () => 2, history: () => 1 },
});
