/**
 * What speculation is worth, from measured times: V(T) / S, marginal costs, where a play of T rows beats T
 * steps, the acceptance that pays, the best number of drafts, the speed-up to expect. Pure arithmetic.
 */
import { evenSurvival, expectedTokens } from "../engine/speculate/expected.ts";

/** Times of one round of `rows` rows, in ns. */
export interface VerifyPoint {
  readonly rows: number;
  /** Of the whole round when no draft is accepted: forward, accept, commit of one row, read-back. */
  readonly verifyNs: number;
  /** How much longer it takes when half and when all of the drafts are accepted; null: not measured. */
  readonly halfNs: number | null;
  readonly allNs: number | null;
  /** How much longer it takes when the model's head drafts for the next round. */
  readonly draftNs: number;
}

/** What was measured at one place: a serial step and rounds by their rows, ascending. */
export interface VerifyCurve {
  readonly stepNs: number;
  /** What a round takes less where many of them are one call, as with the model's head. */
  readonly chainedNs: number;
  readonly points: readonly VerifyPoint[];
}

/** Time of a row more than the next narrower round has; null for the first. */
export function marginalNs(curve: VerifyCurve, rows: number): number | null {
  const at = curve.points.findIndex((p) => p.rows === rows);
  if (at < 1) return null;
  const [before, here] = [curve.points[at - 1], curve.points[at]];
  return (here.verifyNs - before.verifyNs) / (here.rows - before.rows);
}

/** The fewest rows, two at least, whose play takes less than as many steps; null where none does. */
export function crossover({ stepNs, points }: VerifyCurve): number | null {
  return points.find((p) => p.rows > 1 && p.verifyNs < p.rows * stepNs)?.rows ?? null;
}

/** Mean time of a round of `drafts` drafts of which `accepted` are kept on average; null: not measured. */
export function roundNs(curve: VerifyCurve, drafts: number, accepted: number): number | null {
  const point = curve.points.find((p) => p.rows === drafts + 1);
  if (!point) return null;
  return point.verifyNs + point.draftNs + keepNs(point, accepted) - curve.chainedNs;
}

/** How much longer a round takes that keeps so many drafts: between what none, half and all of them cost. */
export function keepNs({ rows, halfNs, allNs }: VerifyPoint, accepted: number): number {
  const drafts = rows - 1, half = drafts >> 1;
  if (drafts === 0 || allNs === null) return 0;
  if (halfNs === null || half === 0) return allNs * accepted / drafts;
  return accepted <= half
    ? halfNs * accepted / half
    : halfNs + (allNs - halfNs) * (accepted - half) / (drafts - half);
}

/**
 * Tokens a time over serial decode's, where `singles` tokens beside each round are made by a call of their own,
 * as the drafter has nothing to propose; null where the width was not measured.
 */
export function speedup(
  curve: VerifyCurve,
  survival: readonly number[],
  drafts: number,
  singles = 0,
): number | null {
  const tokens = expectedTokens(survival, drafts);
  const round = roundNs(curve, drafts, tokens - 1);
  if (round === null) return null;
  const single = curve.points.find((p) => p.rows === 1)?.verifyNs ?? curve.stepNs;
  const ns = round + singles * single;
  return ns <= 0 ? null : (tokens + singles) * curve.stepNs / ns;
}

/**
 * The acceptance of each draft, the same at every place, from which rounds of `drafts` drafts are faster
 * than serial decode; null where even full acceptance is not enough, or the width was not measured.
 */
export function breakEven(curve: VerifyCurve, drafts: number): number | null {
  const gain = (p: number) => speedup(curve, evenSurvival(p, drafts), drafts);
  const most = gain(1);
  if (most === null || most < 1) return null;
  let low = 0, high = 1;
  for (let i = 0; i < 50; i++) {
    const middle = (low + high) / 2;
    if (gain(middle)! < 1) low = middle;
    else high = middle;
  }
  return high;
}

export interface BestLength {
  readonly drafts: number;
  readonly speedup: number;
  readonly tokens: number;
}

/** The number of drafts with the highest speed-up, of those measured and of places known; 0: do not draft. */
export function bestLength(
  curve: VerifyCurve,
  survival: readonly number[],
  singles = 0,
): BestLength {
  let best: BestLength = { drafts: 0, speedup: 1, tokens: 1 };
  for (let drafts = 1; drafts <= survival.length; drafts++) {
    const gain = speedup(curve, survival, drafts, singles);
    if (gain === null || gain <= best.speedup) continue;
    best = { drafts, speedup: gain, tokens: expectedTokens(survival, drafts) };
  }
  return best;
}

/**
 * Acceptance as it was given: one number is the chance of every draft, several are the shares of rounds
 * that accept the draft at each place.
 */
export function survivalGiven(acceptance: readonly number[], places: number): number[] {
  return acceptance.length === 1 ? evenSurvival(acceptance[0], places) : [...acceptance];
}
