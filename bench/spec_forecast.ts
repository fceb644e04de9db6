/**
 * How long a run of rounds must take: what was verified, in plays and acceptance, times what such plays took
 * whose outcomes were forced. The time of the run itself is no input. Pure arithmetic.
 */
import type { Chain, ForcedPlay, LengthCount } from "./port.ts";
import { keepNs, type VerifyPoint } from "./spec_figures.ts";

/** Times beside one run. */
export interface BesideTimes {
  /** Of each forced play, a call each; null: there was none. */
  readonly playNs: readonly (number | null)[];
  /** The host's drafter over the whole run. */
  readonly proposeNs: number;
  /** Where the model's head drafts. */
  readonly chain: Chain | null;
}

/** Drafts accepted by a play of so many rows: none, half, all. */
export function outcomes(rows: number): number[] {
  return [...new Set([0, (rows - 1) >> 1, rows - 1])];
}

/**
 * The forced plays that a forecast needs: the single token, and each length that was verified with none, half
 * and all of the drafts right; the head makes `next` drafts behind each.
 */
export function forcedPlays(lengths: readonly LengthCount[], next: number): ForcedPlay[] {
  const verified = lengths.filter((l) => l.drafts > 0).flatMap(({ drafts }) =>
    outcomes(drafts + 1).map((accepted) => ({ drafts, accepted, next }))
  );
  return [{ drafts: 0, accepted: 0, next }, ...verified];
}

/** Plays of one turn of a walk. */
const TURN_PLAYS = 12;

/**
 * A turn of forced plays, by place in `plays`: each about as often as the run had need of it, but once at least,
 * evenly mixed. What counts most is then measured most.
 */
export function turnOf(plays: readonly ForcedPlay[], lengths: readonly LengthCount[]): number[] {
  const need = plays.map(() => 0);
  for (const { drafts, plays: count, acceptedAt } of lengths) {
    const half = drafts >> 1,
      add = (accepted: number, n: number) =>
        need[plays.findIndex((p) => p.drafts === drafts && p.accepted === accepted)] += n;
    for (let kept = 0; kept <= drafts; kept++) {
      const n = (kept > 0 ? acceptedAt[kept - 1] : count) - (acceptedAt[kept] ?? 0);
      const [low, high] = kept <= half ? [0, half] : [half, drafts];
      const share = high > low ? (kept - low) / (high - low) : 0;
      add(low, n * (1 - share));
      add(high, n * share);
    }
  }
  const all = need.reduce((sum, n) => sum + n, 0);
  return need.flatMap((n, at) => {
    const times = Math.max(1, Math.round(TURN_PLAYS * n / all));
    return Array.from({ length: times }, (_, i) => ({ at, when: (i + 0.5) / times }));
  }).sort((a, b) => a.when - b.when).map(({ at }) => at);
}

/**
 * Time of a run of these plays; null where a forced play that it needs was not taken, or where a busy moment met
 * some of the plays, so that what they add to one another leaves no time.
 */
export function foretoldNs(
  lengths: readonly LengthCount[],
  plays: readonly ForcedPlay[],
  { playNs, proposeNs, chain }: BesideTimes,
): number | null {
  let ns = proposeNs;
  for (const length of lengths) {
    const point = pointOf(length.drafts, plays, playNs);
    if (point === null) return null;
    const base = chain && length.drafts === chain.length.drafts
      ? (chain.ns - keptNs(point, chain.length)) / chain.length.plays
      : point.verifyNs;
    ns += length.plays * base + keptNs(point, length);
  }
  return ns > 0 ? ns : null;
}

function pointOf(
  drafts: number,
  plays: readonly ForcedPlay[],
  playNs: readonly (number | null)[],
): VerifyPoint | null {
  const [none, half, all] = [0, drafts >> 1, drafts].map((accepted) =>
    playNs[plays.findIndex((p) => p.drafts === drafts && p.accepted === accepted)] ?? null
  );
  if (none === null || half === null || all === null) return null;
  return {
    rows: drafts + 1,
    verifyNs: none,
    halfNs: drafts > 1 ? half - none : null,
    allNs: drafts > 0 ? all - none : null,
    draftNs: 0,
  };
}

/** What the drafts that plays of one length kept add to their time. */
function keptNs(point: VerifyPoint, { drafts, acceptedAt }: LengthCount): number {
  let ns = 0;
  for (let kept = 1; kept <= drafts; kept++) {
    const times = acceptedAt[kept - 1] - (acceptedAt[kept] ?? 0);
    ns += times * keepNs(point, kept);
  }
  return ns;
}

/** Share of the plays with a draft at each place that kept the drafts up to it. */
export function survivalAt(lengths: readonly LengthCount[]): number[] {
  const longest = Math.max(0, ...lengths.map((l) => l.drafts));
  return Array.from({ length: longest }, (_, i) => {
    const reaching = lengths.filter((l) => l.drafts > i);
    const kept = reaching.reduce((sum, l) => sum + l.acceptedAt[i], 0);
    return kept / reaching.reduce((sum, l) => sum + l.plays, 0);
  });
}
