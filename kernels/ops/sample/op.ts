import { defineOp, type Sizes } from "../../define.ts";
import { philox4x32 } from "../../shared/philox.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

const F32_MAX = 3.4028234663852886e38;

function floatOf(step: Uint32Array, field: number): number {
  return new Float32Array(step.slice(field, field + 1).buffer)[0];
}

/** Logits with NaN as -inf and the distinct tokens of the window before position p made less likely. */
function penalised(
  logits: Float64Array,
  step: Uint32Array,
  history: Uint32Array,
  p: number,
): Float64Array {
  const x = logits.map((v) => Number.isNaN(v) ? -Infinity : Math.min(v, F32_MAX));
  const penalty = floatOf(step, STEP.repeatPenalty);
  if (!(penalty > 0)) return x;
  for (const id of new Set(history.subarray(Math.max(0, p - step[STEP.repeatWindow]), p))) {
    if (id < x.length) x[id] = Math.min(x[id] > 0 ? x[id] / penalty : x[id] * penalty, F32_MAX);
  }
  return x;
}

/** Tokens that survive top-k, top-p and min-p in that order, ascending, with their relative probability. */
function kept(x: Float64Array, step: Uint32Array): { ids: number[]; weights: Float64Array } {
  const order = Array.from(x, (_, id) => id).sort((a, b) => x[b] - x[a] || a - b);
  const temperature = floatOf(step, STEP.temperature), top = x[order[0]];
  const weights = x.map((v) => Math.exp((v - top) / temperature));
  const k = step[STEP.topK], topP = floatOf(step, STEP.topP), minP = floatOf(step, STEP.minP);
  if (k > 0 && k < order.length) order.length = k;
  if (topP < 1) {
    const total = order.reduce((sum, id) => sum + weights[id], 0);
    let n = 1;
    for (let sum = weights[order[0]]; sum < topP * total && n < order.length;) {
      sum += weights[order[n++]];
    }
    order.length = n;
  }
  const least = minP > 0 ? Math.min(minP, 1) : 0;
  return { ids: order.filter((id) => weights[id] >= least).sort((a, b) => a - b), weights };
}

/** Walks the kept tokens in id order until their share of probability passes u. */
function draw(x: Float64Array, step: Uint32Array, u: number): number {
  const { ids, weights } = kept(x, step);
  let rest = u * ids.reduce((sum, id) => sum + weights[id], 0);
  let last = ids[0];
  for (const id of ids) {
    if (weights[id] === 0) continue;
    last = id;
    rest -= weights[id];
    if (rest < 0) break;
  }
  return last;
}

function greedy(x: Float64Array): number {
  let best = -1;
  x.forEach((v, id) => {
    if (!Number.isNaN(v) && (best < 0 || v > x[best])) best = id;
  });
  return Math.max(best, 0);
}

/** Settings of the tested samples. */
interface Setting {
  readonly vocab: number;
  readonly temperature: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly penalty?: number;
  readonly window?: number;
  readonly pos?: number;
  /** How far the logits spread; 6 when not given. */
  readonly spread?: number;
  readonly odd?: "ties" | "nan" | "some nan" | "infinite";
}

/** By the length of history, which tells the cases apart. */
const SETTINGS: Readonly<Record<string, Setting>> = {
  9: { vocab: 1, temperature: 1 },
  10: { vocab: 2, temperature: 1, topP: 0.5 },
  11: { vocab: 37, temperature: 0 },
  12: { vocab: 37, temperature: 0.7 },
  13: { vocab: 300, temperature: 0, penalty: 1.5, window: 5, spread: 1 },
  14: { vocab: 300, temperature: 1, penalty: 1.3, window: 0xffffffff },
  15: { vocab: 300, temperature: 1, penalty: 0.5, window: 9, pos: 0 },
  16: { vocab: 1000, temperature: 1, topK: 1 },
  17: { vocab: 1000, temperature: 1.5, topK: 40 },
  18: { vocab: 1000, temperature: 1, topK: 999, topP: 0.999 },
  19: { vocab: 1000, temperature: 1, topK: 2000, minP: 0.05 },
  20: { vocab: 1000, temperature: 1, topP: 0.9 },
  21: { vocab: 1000, temperature: 1, topP: 0 },
  22: { vocab: 1000, temperature: 2, topP: 0.95, minP: 0.02 },
  23: { vocab: 1000, temperature: 1, topK: 50, topP: 0.8, minP: 0.1 },
  24: { vocab: 1000, temperature: 1, topK: 17, odd: "ties" },
  25: { vocab: 1000, temperature: 3, topP: 0.6, odd: "ties" },
  26: { vocab: 100, temperature: 1, odd: "nan" },
  27: { vocab: 100, temperature: 1, topP: 0.9, odd: "some nan" },
  28: { vocab: 100, temperature: 1, topK: 99, odd: "some nan" },
  29: { vocab: 100, temperature: 1, topP: 0.9, odd: "infinite" },
  30: { vocab: 100, temperature: 0, odd: "infinite" },
  31: { vocab: 1000, temperature: 1e-30, topK: 20 },
  32: { vocab: 1000, temperature: 1, pos: 0xffffffff, penalty: 2, window: 3 },
  33: { vocab: 70001, temperature: 1, spread: 0.01, topP: 0.7 },
  34: { vocab: 248320, temperature: 0.6, topK: 20, topP: 0.95 },
  35: { vocab: 248320, temperature: 1, spread: 16, topP: 0.95 },
  36: { vocab: 248320, temperature: 1, spread: 16 },
  37: { vocab: 248320, temperature: 1, spread: 16, topK: 5000, minP: 0.01 },
};

export const sample = defineOp({
  name: "sample",
  doc:
    "picked = token drawn for position p = step.pos + rows: repeat penalty, temperature, top-k, top-p, min-p, Philox; temperature 0 is argmax",
  tensors: {
    logits: { axes: ["one", "vocab"], dtypes: ["f32"], role: "in" },
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    history: { axes: ["ctx"], dtypes: ["u32"], role: "in" },
    work: { axes: ["two", "vocab"], dtypes: ["f32"], role: "inout", unspecified: true },
    picked: { axes: ["one"], dtypes: ["u32"], role: "out" },
  },
  params: { rows: "u32" },
  constraints: [
    { axis: "one", oneOf: [1] },
    { axis: "two", oneOf: [2] },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: () => 1,
  simt: { threads: 1024, groups: () => [1, 1, 1] },
  reference: ({ logits, step, history, picked }, { rows }, { vocab }) => {
    const p = step[STEP.pos] + rows;
    const real = logits.subarray(0, Math.min(vocab, step[STEP.vocabUsed]));
    const x = penalised(real, step, history, p);
    if (!x.some((v) => v > -Infinity)) picked[0] = greedy(real);
    else if (!(floatOf(step, STEP.temperature) > 0)) picked[0] = greedy(x);
    else {
      const [bits] = philox4x32([step[STEP.seedLo], step[STEP.seedHi]], [p >>> 0, 0, 0, 0]);
      picked[0] = draw(x, step, (bits + 0.5) / 2 ** 32);
    }
  },
  tolerance: {},
  cases: Object.keys(SETTINGS).map((ctx) => {
    const { vocab } = SETTINGS[ctx];
    return { one: 1, vocab, stepWords: 64, ctx: Number(ctx), two: 2, rows: 2 };
  }),
  fill: {
    logits: (s, random) => {
      const { odd, spread = 6 } = SETTINGS[s.ctx];
      return Float64Array.from({ length: s.vocab }, () => {
        const x = spread * (random() + random() + random() - 1.2), r = random();
        if (odd === "ties") return Math.round(x);
        if (odd === "nan") return NaN;
        if (odd === "infinite" && r < 0.2) return -Infinity;
        if (odd === "infinite" && r > 0.97) return Infinity;
        return odd === "some nan" && r < 0.2 ? NaN : x;
      });
    },
    history: (s, random) => Uint32Array.from({ length: s.ctx }, () => random() * s.vocab),
    step: (s: Sizes) => {
      const set = SETTINGS[s.ctx];
      const step = new Uint32Array(s.stepWords);
      const bits = (x: number) => new Uint32Array(Float32Array.of(x).buffer)[0];
      step[STEP.pos] = set.pos ?? s.ctx - 7;
      step[STEP.ctx] = s.ctx;
      step[STEP.vocabUsed] = s.vocab > 30 ? s.vocab - 5 : s.vocab;
      step[STEP.seedLo] = 1234567 * s.ctx;
      step[STEP.seedHi] = s.vocab;
      step[STEP.temperature] = bits(set.temperature);
      step[STEP.topK] = set.topK ?? 0;
      step[STEP.topP] = bits(set.topP ?? 1);
      step[STEP.minP] = bits(set.minP ?? 0);
      step[STEP.repeatPenalty] = bits(set.penalty ?? 1);
      step[STEP.repeatWindow] = set.window ?? 0;
      return step;
    },
  },
  flops: (s) => 12 * s.vocab,
  touched: { step: () => STEP.stops, history: () => 64, work: (s) => s.vocab },
});
