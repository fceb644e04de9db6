/**
 * Statistics of times and rates: robust location and spread, slopes, exact sign test, seeded bootstrap,
 * correction for many rows, minimal detectable effect. Pure: no clock, no randomness but a given seed.
 * Knows nothing of reports or verdicts.
 */
import {
  mean,
  median,
  medianAbsoluteDeviation as mad,
  quantileSorted,
  sampleVariance as variance,
} from "statistics";

// Two-pass variance and the quantiles of numpy's default (linear between order statistics).
export { mad, mean, median, quantileSorted, variance };

export interface Interval {
  readonly lo: number;
  readonly hi: number;
}

/** Scales a median absolute deviation to the standard deviation of a normal sample. */
export const MAD_TO_SIGMA = 1.4826;
/** Standard error of a median over that of a mean, for a normal sample. */
const MEDIAN_COST = Math.sqrt(Math.PI / 2);

/** Ascending copy. */
export function sorted(values: Iterable<number>): Float64Array<ArrayBuffer> {
  return Float64Array.from(values).sort();
}

/** Linear between order statistics; `q` from 0 to 1. */
export function quantile(values: readonly number[], q: number): number {
  return quantileSorted([...sorted(values)], q);
}

/** Values further than 1.5 interquartile ranges from the quartiles. */
export function countOutliers(values: readonly number[]): number {
  if (values.length < 4) return 0;
  const q1 = quantile(values, 0.25), q3 = quantile(values, 0.75), fence = 1.5 * (q3 - q1);
  return values.filter((x) => x < q1 - fence || x > q3 + fence).length;
}

/** Mulberry32: uniform in [0, 1), the same for a seed everywhere. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const TAIL = 0.02425;
const A = [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269];
const A_REST = [-30.66479806614716, 2.506628277459239];
const B = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972];
const B_REST = [-13.28068155288572, 1];
const C = [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734];
const C_REST = [4.374664141464968, 2.938163982698783];
const D = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1];

function polynomial(coefficients: readonly number[], x: number): number {
  return coefficients.reduce((sum, c) => sum * x + c, 0);
}

/** Inverse of the standard normal distribution (Acklam), to about 1e-9. */
export function normalQuantile(p: number): number {
  if (p <= 0) return -Infinity;
  if (p >= 1) return Infinity;
  if (p > 0.5) return -normalQuantile(1 - p);
  if (p < TAIL) {
    const q = Math.sqrt(-2 * Math.log(p));
    return polynomial([...C, ...C_REST], q) / polynomial(D, q);
  }
  const q = p - 0.5, r = q * q;
  return polynomial([...A, ...A_REST], r) * q / polynomial([...B, ...B_REST], r);
}

export interface Slope extends Interval {
  readonly slope: number;
}

/**
 * Median of the slopes between all pairs of points, with Sen's interval from Kendall's statistic. Null
 * where no two points differ in x.
 */
export function theilSen(
  x: readonly number[],
  y: readonly number[],
  confidence = 0.95,
): Slope | null {
  const slopes: number[] = [];
  for (let i = 0; i < x.length; i++) {
    for (let j = i + 1; j < x.length; j++) {
      if (x[i] !== x[j]) slopes.push((y[j] - y[i]) / (x[j] - x[i]));
    }
  }
  if (slopes.length === 0) return null;
  const all = sorted(slopes), n = x.length;
  const reach = normalQuantile(0.5 + confidence / 2) * Math.sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const lo = Math.max(0, Math.floor((all.length - reach) / 2));
  const hi = Math.min(all.length - 1, Math.ceil((all.length + reach) / 2));
  return { slope: quantileSorted([...all], 0.5), lo: all[lo], hi: all[hi] };
}

/** Median of all averages of two values, each with itself too. */
export function hodgesLehmann(values: readonly number[]): number {
  const averages: number[] = [];
  for (let i = 0; i < values.length; i++) {
    for (let j = i; j < values.length; j++) averages.push((values[i] + values[j]) / 2);
  }
  return median(averages);
}

/** Probability of at most `k` heads in `n` throws of a fair coin. */
export function coinTail(k: number, n: number): number {
  if (k < 0) return 0;
  if (k >= n) return 1;
  let log = -n * Math.LN2, sum = 0;
  for (let i = 0; i <= k; i++) {
    sum += Math.exp(log);
    log += Math.log(n - i) - Math.log(i + 1);
  }
  return Math.min(1, sum);
}

export interface SignTest {
  readonly below: number;
  readonly above: number;
  /** Chance of so many values below if the median were `at` or more; and the reverse. */
  readonly pBelow: number;
  readonly pAbove: number;
  /** Two-sided. */
  readonly p: number;
}

/** Exact sign test of the median against `at`; values equal to it are left out. */
export function signTest(values: readonly number[], at = 0): SignTest {
  const below = values.filter((x) => x < at).length;
  const above = values.filter((x) => x > at).length;
  const n = below + above;
  const pBelow = coinTail(above, n), pAbove = coinTail(below, n);
  return { below, above, pBelow, pAbove, p: Math.min(1, 2 * Math.min(pBelow, pAbove)) };
}

export interface ResampleOptions {
  readonly resamples: number;
  readonly seed: number;
  /** Consecutive values that are drawn together; default 1. The last block may be shorter. */
  readonly block?: number;
}

/** Medians of resamples with replacement, ascending. `samples` must not be empty. */
export function resampledMedians(
  samples: readonly number[],
  { resamples, seed, block = 1 }: ResampleOptions,
): Float64Array<ArrayBuffer> {
  const n = samples.length, blocks = Math.ceil(n / block);
  // Counting how often each rank is drawn finds a median without sorting every resample.
  const order = samples.map((_, i) => i).sort((a, b) => samples[a] - samples[b]);
  const rankOf = new Int32Array(n);
  order.forEach((at, rank) => rankOf[at] = rank);
  const values = sorted(samples), drawn = new Int32Array(n), random = randomFrom(seed);
  const out = new Float64Array(resamples);
  for (let r = 0; r < resamples; r++) {
    drawn.fill(0);
    let total = 0;
    for (let b = 0; b < blocks; b++) {
      const from = Math.floor(random() * blocks) * block, to = Math.min(from + block, n);
      for (let i = from; i < to; i++) drawn[rankOf[i]]++;
      total += to - from;
    }
    out[r] = medianOfCounts(values, drawn, total);
  }
  return out.sort();
}

function medianOfCounts(values: Float64Array, drawn: Int32Array, total: number): number {
  const upper = total >> 1, lower = total % 2 === 0 ? upper - 1 : upper;
  let seen = 0, rank = -1;
  while (seen <= lower) seen += drawn[++rank];
  const low = values[rank];
  while (seen <= upper) seen += drawn[++rank];
  return (low + values[rank]) / 2;
}

/** The middle `confidence` of ascending values. */
export function percentileInterval(ascending: Float64Array, confidence: number): Interval {
  const skip = (1 - confidence) / 2 * ascending.length;
  const last = ascending.length - 1;
  const lo = Math.min(last, Math.floor(skip));
  return { lo: ascending[lo], hi: ascending[last - lo] };
}

export interface BootstrapOptions extends ResampleOptions {
  readonly confidence: number;
}

/** Percentile bootstrap interval of the median; null below two samples. */
export function bootstrapMedianCi(
  samples: readonly number[],
  options: BootstrapOptions,
): Interval | null {
  if (samples.length < 2) return null;
  return percentileInterval(resampledMedians(samples, options), options.confidence);
}

/** Holm's correction: p values so that each below a level may be rejected with that family-wise error. */
export function holm(p: readonly number[]): number[] {
  const order = p.map((_, i) => i).sort((a, b) => p[a] - p[b]);
  const out = new Array<number>(p.length);
  let highest = 0;
  order.forEach((at, rank) => {
    highest = Math.max(highest, Math.min(1, p[at] * (p.length - rank)));
    out[at] = highest;
  });
  return out;
}

export interface DetectionOptions {
  /** Standard deviation of one pair's log ratio. */
  readonly sigma: number;
  readonly pairs: number;
  readonly confidence: number;
  /** Chance of noticing a change of this size; default 0.8. */
  readonly power?: number;
}

/** The smallest change that the median of so many pairs tells from none, as a fraction of the rate. */
export function minimalDetectableEffect(options: DetectionOptions): number {
  const { sigma, pairs, confidence, power = 0.8 } = options;
  return detectableFrom(MEDIAN_COST * sigma / Math.sqrt(pairs), confidence, power);
}

/** The same from the standard error of the effect itself. */
export function detectableFrom(standardError: number, confidence: number, power = 0.8): number {
  const z = normalQuantile(0.5 + confidence / 2) + normalQuantile(power);
  return 1 - Math.exp(-z * standardError);
}

/** Pairs needed until a change of `effect` is told from none; Infinity for none. */
export function pairsNeeded(effect: number, options: Omit<DetectionOptions, "pairs">): number {
  const one = -Math.log1p(-minimalDetectableEffect({ ...options, pairs: 1 }));
  return Math.ceil((one / -Math.log1p(-effect)) ** 2);
}
