import { defineOp } from "../../define.ts";
import { takeToken } from "../../shared/rounds.ts";
import { DRAFTS_MAX, HALT, STEP, STEP_WORDS, STOPS_MAX } from "../../step.ts";

/** Tested rounds, told apart by the length of history: drafts, how many agree, where the run ends. */
interface Round {
  readonly pos: number;
  readonly drafts: number;
  readonly agree: number;
  readonly limit: number;
  /** Place of a picked token that is a stop token. */
  readonly stopAt?: number;
}
const ROUNDS: Readonly<Record<number, Round>> = {
  40: { pos: 5, drafts: 0, agree: 0, limit: 99 },
  41: { pos: 5, drafts: 4, agree: 0, limit: 99 },
  42: { pos: 5, drafts: 4, agree: 2, limit: 99 },
  43: { pos: 5, drafts: 4, agree: 4, limit: 99 },
  44: { pos: 5, drafts: 4, agree: 4, limit: 99, stopAt: 1 },
  45: { pos: 5, drafts: 4, agree: 2, limit: 99, stopAt: 2 },
  46: { pos: 5, drafts: 4, agree: 4, limit: 10 },
  47: { pos: 45, drafts: 4, agree: 4, limit: 99 },
  48: { pos: 43, drafts: 4, agree: 4, limit: 99 },
  49: { pos: 5, drafts: 0xffffffff, agree: 4, limit: 99 },
  50: { pos: 50, drafts: 4, agree: 0, limit: 99 },
  51: { pos: 0xfffffffd, drafts: 4, agree: 4, limit: 99 },
};

export const specAccept = defineOp({
  name: "spec_accept",
  doc:
    "the tokens of a round: picked[i,0] in order while draft i = history[pos+1+i] agrees; history, step.pos, committed, produced and counts move by them; step.halt on a stop token, budget or full context",
  tensors: {
    picked: { axes: ["rows", "pitch"], dtypes: ["u32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "inout" },
    history: { axes: ["ctx"], dtypes: ["u32"], role: "inout" },
  },
  params: {},
  constraints: [{ axis: "rows", max: DRAFTS_MAX + 1 }, { axis: "stepWords", min: STEP_WORDS }],
  tasks: () => 1,
  simt: { threads: 32, groups: () => [1, 1, 1] },
  reference: ({ picked, step, history }, _, { rows, pitch, ctx }) => {
    const pos = step[STEP.pos], drafts = Math.min(step[STEP.drafts], rows - 1);
    let n = 0;
    for (let agrees = true; agrees && n <= drafts && step[STEP.halt] === HALT.running;) {
      const token = picked[n * pitch], at = (pos + n + 1) >>> 0;
      agrees = n < drafts && at < ctx && history[at] === token;
      if (agrees) {
        step[STEP.accepted]++;
        step[STEP.acceptedAt + n]++;
      }
      takeToken(step, history, token, at);
      n++;
    }
    step[STEP.pos] = pos + n;
    step[STEP.committed] = n;
    step[STEP.rounds]++;
    step[STEP.drafted] += drafts;
    step[STEP.drafts] = 0;
  },
  tolerance: {},
  cases: Object.keys(ROUNDS).map((ctx) => ({ rows: 5, pitch: 4, ctx: Number(ctx) }))
    .concat([{ rows: 16, pitch: 1, ctx: 43 }, { rows: 1, pitch: 3, ctx: 40 }])
    .map((s) => ({ ...s, stepWords: STEP_WORDS })),
  fill: {
    picked: (s) =>
      Uint32Array.from(
        { length: s.rows * s.pitch },
        (_, i) => i % s.pitch ? 9999 : 500 + i / s.pitch,
      ),
    history: (s) => {
      const { pos, agree } = ROUNDS[s.ctx];
      return Uint32Array.from({ length: s.ctx }, (_, p) => {
        const i = p - pos - 1;
        return i >= 0 && i < agree ? 500 + i : 7 + p;
      });
    },
    step: (s) => {
      const { pos, drafts, limit, stopAt } = ROUNDS[s.ctx];
      const step = Uint32Array.from({ length: s.stepWords }, (_, w) => w >= STEP.drafts ? w : 0);
      step[STEP.pos] = pos;
      step[STEP.drafts] = drafts;
      step[STEP.produced] = 7;
      step[STEP.limit] = limit;
      step[STEP.stops] = 3;
      for (let i = 0; i < STOPS_MAX; i++) step[STEP.stopIds + i] = 1000 + i;
      if (stopAt !== undefined) step[STEP.stopIds + 2] = 500 + stopAt;
      return step;
    },
  },
  flops: () => 0,
  touched: { picked: (s) => s.rows, step: () => STEP_WORDS, history: (s) => s.rows },
});
