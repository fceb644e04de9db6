/**
 * What the rounds of a run tell about the next one: how long a play of so many rows takes, and how often the
 * draft at each place is accepted. Owns the two estimates; decides nothing.
 */
import { DRAFTS_MAX } from "../../kernels/step.ts";
import type { CallOutcome } from "./drafter.ts";
import { survivalOf } from "./expected.ts";

/** Times kept of each width: a median over them forgets a slow first play and a hiccup. */
const TIMES_MAX = 9;
/** The cost of rows that were never played, in times of one row's. */
const PRIOR_SLOPE = 0.2;
/** Widths that were played less than this may be better than what is known of them. */
const TRIED = 2;
const HOPE = 0.2;
/** A first play of a width that took so many times what was expected made its tape too. */
const TAPE = 2;

/** Verify cost V(rows) / S before anything was measured. */
export type VerifyCurve = (rows: number) => number;

export function priorCurve(rows: number): number {
  return 1 + PRIOR_SLOPE * (rows - 1);
}

/** Time of one play by its rows; what was not measured lies on the prior curve, bent to what was. */
export class PlayTimes {
  readonly #times: number[][] = [];
  /** How often each width was played since it was last in doubt. */
  readonly #tries: (number | undefined)[] = [];
  constructor(readonly curve: VerifyCurve) {}

  add(rows: number, ns: number): void {
    const tape = this.makesTape(rows, ns);
    this.#tries[rows] ??= 0;
    if (tape) return;
    const times = this.#times[rows] ??= [];
    times.push(ns);
    if (times.length > TIMES_MAX) times.shift();
    this.#tries[rows]!++;
  }

  /** Whether single tokens were timed, which everything else is held against. */
  get known(): boolean {
    return this.#times[1] !== undefined;
  }

  estimate(rows: number): number {
    return this.#bend(rows) * this.curve(rows);
  }

  /** The least that it may turn out to be. */
  hoped(rows: number): number {
    return this.estimate(rows) * (this.tried(rows) ? 1 : 1 - HOPE);
  }

  /** Whether a time looks like the first play of a width and the making of its tape. */
  makesTape(rows: number, ns: number): boolean {
    return rows > 1 && this.#tries[rows] === undefined && ns > TAPE * this.estimate(rows);
  }

  tried(rows: number): boolean {
    return (this.#tries[rows] ?? 0) >= TRIED;
  }

  /** What was measured long ago may have changed: every width deserves another look. */
  doubt(): void {
    for (const rows in this.#tries) this.#tries[rows] = 0;
  }

  /** Measured over prior, between the widths that were measured on either side. */
  #bend(rows: number): number {
    let below = rows, above = rows;
    while (below > 0 && !this.#times[below]) below--;
    while (above < this.#times.length && !this.#times[above]) above++;
    const at = (n: number) => middle(this.#times[n]) / this.curve(n);
    if (above >= this.#times.length) return at(below);
    if (below === above) return at(rows);
    return at(below) + (at(above) - at(below)) * (rows - below) / (above - below);
  }
}

/** The median, the lower one of two. */
function middle(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[(times.length - 1) >> 1];
}

/** Rounds that an estimate of acceptance looks back on. */
const MEMORY = 24;
/** A place that is not reached forgets slower. */
const IDLE_MEMORY = 192;
/** Weight of what is assumed before, in rounds. */
const PRIOR_TRIES = 2;
const PRIOR_ACCEPTANCE = 0.6;

/** Running share of accepted drafts at each place, of those whose forerunners were accepted. */
export class Acceptance {
  readonly #tries = new Float64Array(DRAFTS_MAX);
  readonly #hits = new Float64Array(DRAFTS_MAX);

  add({ rounds, rows, drafted, acceptedAt }: CallOutcome): void {
    if (drafted === 0) return;
    // A host's draft may be shorter than asked for; drafts of one call on the device are of one length.
    const places = rounds === 1 ? drafted : rows - 1;
    let reached = Math.min(rounds, Math.ceil(drafted / places));
    for (let i = 0; i < DRAFTS_MAX; i++) {
      const tries = i < places ? reached : 0;
      const keep = tries > 0 ? (1 - 1 / MEMORY) ** tries : (1 - 1 / IDLE_MEMORY) ** rounds;
      // The newest of several tries weighs most: a sum of what each keeps.
      const weight = tries > 0 ? (1 - keep) * MEMORY / tries : 0;
      this.#tries[i] = this.#tries[i] * keep + weight * tries;
      this.#hits[i] = this.#hits[i] * keep + weight * (acceptedAt[i] ?? 0);
      reached = tries > 0 ? acceptedAt[i] ?? 0 : 0;
    }
  }

  /** Share of rounds that accept the drafts up to each place. A place is expected to be like the one before. */
  survival(hope = 0): number[] {
    let before = PRIOR_ACCEPTANCE;
    const shares = Array.from(this.#tries, (tries, i) => {
      const share = (this.#hits[i] + before * PRIOR_TRIES) / (tries + PRIOR_TRIES);
      before = share;
      return Math.min(1, share + hope / Math.sqrt(tries + PRIOR_TRIES));
    });
    return survivalOf(shares);
  }
}
