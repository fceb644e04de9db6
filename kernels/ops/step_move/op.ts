import { defineOp } from "../../define.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

export const stepMove = defineOp({
  name: "step_move",
  doc: "step.pos += rows: the end of a play that samples nothing",
  tensors: { step: { axes: ["stepWords"], dtypes: ["u32"], role: "inout" } },
  params: { rows: "u32" },
  constraints: [{ axis: "stepWords", min: STEP_WORDS }],
  tasks: () => 1,
  simt: { threads: 32, groups: () => [1, 1, 1] },
  reference: ({ step }, { rows }) => {
    step[STEP.pos] += rows;
  },
  tolerance: {},
  cases: [{ stepWords: 64, rows: 1 }, { stepWords: 64, rows: 512 }],
  fill: {
    step: (s) => {
      const step = new Uint32Array(s.stepWords);
      step[STEP.pos] = 77;
      return step;
    },
  },
  flops: () => 0,
  touched: { step: () => 1 },
});
