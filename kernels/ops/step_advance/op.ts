import { defineOp } from "../../define.ts";
import { takeToken } from "../../shared/rounds.ts";
import { STEP, STEP_WORDS, STOPS_MAX } from "../../step.ts";

/** What the tested steps start from, one for each length of history. */
const STARTS: Readonly<
  Record<number, { pos: number; limit: number; stops: number; picked: number }>
> = {
  20: { pos: 5, limit: 9, stops: 0, picked: 3 },
  21: { pos: 5, limit: 9, stops: 24, picked: 1023 },
  22: { pos: 5, limit: 9, stops: 0xffffffff, picked: 1000 },
  23: { pos: 5, limit: 9, stops: 3, picked: 1003 },
  24: { pos: 5, limit: 8, stops: 3, picked: 1 },
  25: { pos: 21, limit: 9, stops: 3, picked: 1 },
  26: { pos: 23, limit: 9, stops: 3, picked: 1 },
  27: { pos: 24, limit: 8, stops: 3, picked: 1002 },
  1: { pos: 0xfffffffe, limit: 9, stops: 3, picked: 1 },
};

export const stepAdvance = defineOp({
  name: "step_advance",
  doc:
    "step.pos += rows; history[pos] = step.sampled = picked; step.produced += 1; step.halt on a stop token, budget or full context",
  tensors: {
    picked: { axes: ["one"], dtypes: ["u32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "inout" },
    history: { axes: ["ctx"], dtypes: ["u32"], role: "inout" },
  },
  params: { rows: "u32" },
  constraints: [{ axis: "one", oneOf: [1] }, { axis: "stepWords", min: STEP_WORDS }],
  tasks: () => 1,
  simt: { threads: 32, groups: () => [1, 1, 1] },
  reference: ({ picked, step, history }, { rows }) => {
    step[STEP.pos] += rows;
    takeToken(step, history, picked[0], step[STEP.pos]);
  },
  tolerance: {},
  cases: Object.keys(STARTS).map((ctx) => ({ one: 1, stepWords: 64, ctx: Number(ctx), rows: 3 })),
  fill: {
    picked: (s) => [STARTS[s.ctx].picked],
    history: (s, random) => Uint32Array.from({ length: s.ctx }, () => random() * 1000),
    step: (s) => {
      const { pos, limit, stops } = STARTS[s.ctx];
      const step = new Uint32Array(s.stepWords);
      step[STEP.pos] = pos;
      step[STEP.produced] = 7;
      step[STEP.limit] = limit;
      step[STEP.stops] = stops;
      for (let i = 0; i < STOPS_MAX; i++) step[STEP.stopIds + i] = 1000 + i;
      return step;
    },
  },
  flops: () => 0,
  touched: { step: () => STEP.stopIds + STOPS_MAX, history: () => 1 },
});
