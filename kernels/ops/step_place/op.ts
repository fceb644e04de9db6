import { defineOp } from "../../define.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

export const stepPlace = defineOp({
  name: "step_place",
  doc:
    "at.pos = step.pos + ahead - back - ofRound * step.committed: where the rows of a draft head stand, which lag behind the trunk's",
  tensors: {
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    at: { axes: ["stepWords"], dtypes: ["u32"], role: "inout" },
  },
  params: { ahead: "u32", back: "u32", ofRound: "u32" },
  constraints: [{ axis: "stepWords", min: STEP_WORDS }, { axis: "ofRound", max: 1 }],
  tasks: () => 1,
  simt: { threads: 32, groups: () => [1, 1, 1] },
  reference: ({ step, at }, { ahead, back, ofRound }) => {
    at[STEP.pos] = step[STEP.pos] + ahead - back - ofRound * step[STEP.committed];
  },
  tolerance: {},
  cases: [
    { stepWords: STEP_WORDS, ahead: 0, back: 1, ofRound: 0 },
    { stepWords: STEP_WORDS, ahead: 3, back: 1, ofRound: 0 },
    { stepWords: STEP_WORDS, ahead: 0, back: 512, ofRound: 0 },
    { stepWords: STEP_WORDS, ahead: 0, back: 0, ofRound: 1 },
  ],
  fill: {
    step: (s) =>
      Uint32Array.from(
        { length: s.stepWords },
        (_, w) => w === STEP.pos ? 77 : w === STEP.committed ? 5 : w,
      ),
  },
  flops: () => 0,
  touched: { step: () => 2, at: () => 1 },
});
