/**
 * From pairs to an effect and an outcome: paired log ratios, their bootstrap interval, exact sign tests as
 * a second opinion, and the correction for looking more than once. Pure. FAIL and PASS are both proofs;
 * everything else is INCONCLUSIVE.
 */
import {
  detectableFrom,
  hodgesLehmann,
  type Interval,
  MAD_TO_SIGMA,
  median,
  normalQuantile,
  percentileInterval,
  resampledMedians,
  signTest,
} from "./stats.ts";

export const OUTCOMES = ["pass", "fail", "inconclusive"] as const;
export type Outcome = typeof OUTCOMES[number];

/** Pairs at which an undecided comparison is looked at. */
export const LOOKS = [6, 10, 16, 24, 40];
/** Pairs of one A B B A. */
export const BLOCK_PAIRS = 2;

/** The looks of a session, fixed before it starts: each costs confidence. */
export function lookSchedule(minPairs: number, pairs: number): number[] {
  const between = LOOKS.filter((n) => n > minPairs && n < pairs);
  return minPairs < pairs ? [minPairs, ...between, pairs] : [pairs];
}

export interface JudgeOptions {
  /** 0.02: a loss of 2 % is tolerated. */
  readonly tolerance: number;
  /** For all looks together. */
  readonly confidence: number;
  readonly looks: number;
  readonly resamples: number;
  readonly seed: number;
}

export interface Estimate {
  readonly pairs: number;
  /** Rate of head over rate of base. */
  readonly ratio: number;
  /** Holds for all looks together with the stated confidence. */
  readonly ci: [number, number];
  readonly hodges_lehmann: number;
  /** Sign test of no change at all, two-sided, for one look. */
  readonly sign_p: number;
  /** Evidence against "no more than the tolerance is lost" and against "more is lost", for all looks. */
  readonly p_slower: number;
  readonly p_held: number;
  /** Change that this many pairs of this noise would have shown, as a fraction. */
  readonly mde: number;
  /** Robust standard deviation of a pair's log ratio. */
  readonly sigma: number;
}

export interface Judgement {
  readonly outcome: Outcome;
  readonly why: string;
}

/** Level of one-sided proofs at a two-sided confidence. */
export function proofLevel(confidence: number): number {
  return (1 - confidence) / 2;
}

/** `logRatios` are ln(head rate / base rate), block after block. Null for none. */
export function estimate(logRatios: readonly number[], options: JudgeOptions): Estimate | null {
  if (logRatios.length === 0) return null;
  const { tolerance, confidence, looks, resamples, seed } = options;
  const medians = resampledMedians(logRatios, { resamples, seed, block: BLOCK_PAIRS });
  const perLook = 1 - (1 - confidence) / looks;
  const ci = percentileInterval(medians, perLook);
  const edge = Math.log1p(-tolerance);
  const sign = signTest(logRatios, edge);
  const tail = (hit: (x: number) => boolean) => (1 + medians.filter(hit).length) / (resamples + 1);
  const forLooks = (p: number) => Math.min(1, p * looks);
  const center = median([...logRatios]);
  return {
    pairs: logRatios.length,
    ratio: Math.exp(center),
    ci: [Math.exp(ci.lo), Math.exp(ci.hi)],
    hodges_lehmann: Math.exp(hodgesLehmann(logRatios)),
    sign_p: signTest(logRatios, 0).p,
    p_slower: forLooks(Math.max(tail((x) => x >= edge), sign.pBelow)),
    p_held: forLooks(Math.max(tail((x) => x <= edge), sign.pAbove)),
    mde: detectableFrom(standardErrorOf(ci, perLook), perLook),
    sigma: robustSigma(logRatios, center),
  };
}

/** Of a symmetric distribution with this interval. */
function standardErrorOf({ lo, hi }: Interval, confidence: number): number {
  return (hi - lo) / (2 * normalQuantile(0.5 + confidence / 2));
}

function robustSigma(values: readonly number[], center: number): number {
  return MAD_TO_SIGMA * median(values.map((x) => Math.abs(x - center)));
}

/**
 * The outcome at an interval. `pSlower` may be given corrected for the other rows of a gate; `level` is
 * what it is held against.
 */
export function judge(e: Estimate | null, options: JudgeOptions, pSlower?: number): Judgement {
  if (e === null) return { outcome: "inconclusive", why: "no pairs" };
  const floor = 1 - options.tolerance, level = proofLevel(options.confidence);
  const [lo, hi] = e.ci;
  if (hi < floor) {
    if ((pSlower ?? e.p_slower) <= level) {
      return { outcome: "fail", why: "slower than the tolerance allows" };
    }
    const why = e.p_slower <= level
      ? "slower alone, but not beyond chance among this many rows"
      : `slower by the interval, but the sign test of ${e.pairs} pairs does not agree`;
    return { outcome: "inconclusive", why };
  }
  if (lo > floor) {
    if (e.p_held <= level) return { outcome: "pass", why: "holds within the tolerance" };
    const why = `holds by the interval, but the sign test of ${e.pairs} pairs does not agree`;
    return { outcome: "inconclusive", why };
  }
  return { outcome: "inconclusive", why: "the interval contains the tolerance" };
}
