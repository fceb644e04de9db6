/**
 * Chooses whose drafts a round takes and how many, by what rounds of the run so far cost and made: the drafter and
 * depth with the most tokens a second, or none where single tokens are faster. Reads no clock: times come with
 * the calls.
 *
 * What it may lose against single tokens is an account: a small share of the time of every token is paid in,
 * and what rounds lose is drawn from it. So a drafter that is always wrong costs no more than that share,
 * trials included; what rounds gain is paid in too, up to a limit that says how fast a change is noticed.
 */
import { DRAFTS_MAX } from "../../kernels/step.ts";
import type { CallOutcome, DraftPolicy } from "./drafter.ts";
import { Acceptance, PlayTimes, priorCurve, type VerifyCurve } from "./estimates.ts";
import { evenSurvival, expectedTokens } from "./expected.ts";

/** Of serial decode's time: what may be lost. */
const LOSS_SHARE = 0.02;
/** In serial steps: the most that the account holds. */
const ACCOUNT_STEPS = 16;
/** A round must be expected to be faster by this before drafting begins again. */
const MARGIN = 0.03;
/** Tokens from one trial to the next where the last one lost: twice as many each time. */
const TRIAL_TOKENS_MIN = 16;
const TRIAL_TOKENS_MAX = 256;
/** Depths that are chosen from: each width has a tape of its own, and neighbours cost nearly the same. */
const DEPTHS = [1, 2, 3, 5, 7, 11, 15];
/** Serial tokens of one call at least, where the account has to be filled: calls are not free. */
const SERIAL_TOKENS = 32;
/** Tokens of the first call, which says what a single token costs. */
const FIRST_TOKENS = 8;
/** A trial is for finding out whether the text became this predictable. */
const TRIAL_ACCEPTANCE = 0.8;
/** Rounds after which the time of a single token and of other depths is taken anew. */
const REFRESH_ROUNDS = 512;
const REFRESH_TOKENS = 4;
/** A call that took longer than so many times what was expected was held up by something else. */
const HICCUP = 3;

/** Asks that the share of a drafter's finds looks back on, and the weight of what is assumed before. */
const FOUND_MEMORY = 48;
const FOUND_PRIOR = 2;

export interface AutoOptions {
  /** Drafts that the drafter can make. */
  readonly most?: number;
  /** Drafters to choose from. */
  readonly drafters?: number;
  /** V(rows) / S before anything was measured. */
  readonly curve?: VerifyCurve;
}

/** What is known of one drafter, and when it was last tried. */
class Candidate {
  readonly acceptance = new Acceptance();
  readonly times: PlayTimes;
  sinceTrial = 0;
  trialTokens = TRIAL_TOKENS_MIN;
  #found = FOUND_PRIOR;
  #asked = FOUND_PRIOR;

  constructor(readonly place: number, readonly depths: readonly number[], curve: VerifyCurve) {
    this.times = new PlayTimes(curve);
  }

  /** Whether it had a draft when it was asked for one. */
  answered(found: boolean): void {
    const keep = 1 - 1 / FOUND_MEMORY;
    this.#asked = this.#asked * keep + 1;
    this.#found = this.#found * keep + (found ? 1 : 0);
  }

  /** Share of asks that it has a draft for. */
  get found(): number {
    return this.#found / this.#asked;
  }

  /** After a trial that paid the next one follows at once: a streak of them is how drafting comes back. */
  judgeTrial(paid: boolean): void {
    this.trialTokens = paid ? TRIAL_TOKENS_MIN : Math.min(2 * this.trialTokens, TRIAL_TOKENS_MAX);
    this.sinceTrial = paid ? TRIAL_TOKENS_MIN : 0;
  }

  /** Tokens until it may be tried again. */
  get wait(): number {
    return this.trialTokens - this.sinceTrial;
  }

  /** What a round loses whose drafts are all wrong. */
  mostLost(drafts: number): number {
    return Math.max(0, this.times.estimate(drafts + 1) - this.times.estimate(1));
  }

  /** The fewest drafts that would pay if the text had become predictable. */
  get trialDrafts(): number {
    const survival = evenSurvival(TRIAL_ACCEPTANCE, DRAFTS_MAX);
    for (const drafts of this.depths) {
      const steps = this.times.estimate(drafts + 1) / this.times.estimate(1);
      if (expectedTokens(survival, drafts) > (1 + MARGIN) * steps) return drafts;
    }
    return this.depths[0];
  }
}

/** What the next call is for. */
interface Choice {
  readonly candidate: Candidate;
  readonly drafts: number;
  /** Tokens that it should make: whoever plays asks again after them. */
  readonly tokens: number;
  readonly why: "serial" | "refresh" | "trial" | "gain";
}

export class AutoDrafts implements DraftPolicy {
  readonly #candidates: readonly Candidate[];
  /** In ns. */
  #account = 0;
  #sinceRefresh = 0;
  #before: Pick<Choice, "why" | "candidate">;
  #choice: Choice | null = null;

  constructor({ most = DRAFTS_MAX, drafters = 1, curve = priorCurve }: AutoOptions = {}) {
    const deepest = Math.min(most, DRAFTS_MAX);
    const depths = [...DEPTHS.filter((d) => d < deepest), deepest];
    this.#candidates = Array.from(
      { length: drafters },
      (_, place) => new Candidate(place, depths, curve),
    );
    this.#before = { why: "serial", candidate: this.#candidates[0] };
  }

  drafts(): number {
    return this.#chosen.drafts;
  }

  drafter(): number {
    return this.#chosen.candidate.place;
  }

  /** The tokens after which drafts() may say something else: the next call should not make many more. */
  callTokens(): number {
    return this.#chosen.tokens;
  }

  observe(call: CallOutcome): void {
    const choice = this.#chosen, { candidate, drafts, why } = choice;
    this.#choice = null;
    if (call.tokens === 0) return;
    this.#before = { why, candidate };
    for (const c of this.#candidates) {
      if (drafts === 0 || c !== candidate) c.sinceTrial += call.tokens;
    }
    if (call.drafted === 0 && drafts === 0) {
      for (const c of this.#candidates) c.times.add(1, call.ns / call.tokens);
      this.#account += LOSS_SHARE * call.ns;
      if (why === "refresh") this.#sinceRefresh = 0;
    } else if (this.#known) {
      const gain = this.#gainOf(call, candidate);
      this.#account += gain + LOSS_SHARE * call.tokens * this.#stepNs;
      // Nothing is verified where a host's drafter found nothing, or the head has yet to draft.
      if (call.drafted > 0) this.#learn(call, choice, gain);
      else if (drafts > 0 && !call.standing) candidate.answered(false);
    }
    this.#account = Math.min(this.#account, ACCOUNT_STEPS * this.#stepNs);
  }

  /** Time by which the tokens of a call came sooner than one by one. */
  #gainOf({ ns, rows, rounds, tokens }: CallOutcome, { times }: Candidate): number {
    const expected = rounds * times.estimate(rows);
    const most = times.makesTape(rows, ns / rounds) ? expected : HICCUP * expected;
    return tokens * this.#stepNs - Math.min(ns, most);
  }

  #learn(call: CallOutcome, { candidate, why }: Choice, gain: number): void {
    candidate.times.add(call.rows, call.ns / call.rounds);
    candidate.acceptance.add(call);
    candidate.answered(true);
    this.#sinceRefresh += call.rounds;
    if (why !== "trial") return;
    // Beside a drafter that gains a trial pays if it gained more.
    const rival = this.#best(candidate).gain;
    const lost = Math.max(0, 1 - 1 / rival) * call.tokens * this.#stepNs;
    candidate.judgeTrial(gain > lost);
  }

  get #known(): boolean {
    return this.#candidates[0].times.known;
  }

  get #stepNs(): number {
    return this.#candidates[0].times.estimate(1);
  }

  get #chosen(): Choice {
    return this.#choice ??= this.#choose();
  }

  #choose(): Choice {
    const serial = { candidate: this.#before.candidate, drafts: 0 };
    if (!this.#known) return { ...serial, tokens: FIRST_TOKENS, why: "serial" };
    if (this.#sinceRefresh >= REFRESH_ROUNDS) {
      for (const { times } of this.#candidates) times.doubt();
      return { ...serial, tokens: REFRESH_TOKENS, why: "refresh" };
    }
    const best = this.#best();
    const going = this.#before.why === "gain" && this.#before.candidate === best.candidate;
    const gains = best.gain > 1 + (going ? 0 : MARGIN);
    const next = this.#candidates.filter((c) => !gains || c !== best.candidate)
      .reduce<Candidate | null>((a, b) => a === null || b.wait < a.wait ? b : a, null);
    const trial = next?.trialDrafts ?? 0, missing = next ? next.mostLost(trial) - this.#account : 0;
    if (next && next.wait <= 0 && missing <= 0) {
      return { candidate: next, drafts: trial, tokens: 1, why: "trial" };
    }
    if (gains) {
      const { candidate, drafts } = best, rows = drafts + 1;
      const rounds = Math.max(1, Math.floor(this.#account / candidate.mostLost(drafts)));
      const tokens = candidate.times.tried(rows) ? rounds * rows : 1;
      return { candidate, drafts, tokens, why: "gain" };
    }
    if (next!.wait > 0) return { ...serial, tokens: next!.wait, why: "serial" };
    const tokens = Math.ceil(missing / (LOSS_SHARE * this.#stepNs));
    return { ...serial, tokens: Math.max(SERIAL_TOKENS, tokens), why: "serial" };
  }

  /**
   * The drafter and depth with the most tokens a time, of those that the account can bear; its rate over
   * serial's. `but` is left out.
   */
  #best(but?: Candidate): { candidate: Candidate; drafts: number; gain: number } {
    let best = { candidate: this.#candidates[0], drafts: 0, gain: 0 };
    for (const candidate of this.#candidates) {
      if (candidate === but) continue;
      const { times, depths } = candidate, survival = candidate.acceptance.survival();
      // A drafter alone loses little where it finds nothing; among others it keeps them from drafting.
      const found = this.#candidates.length > 1 ? candidate.found : 1;
      for (const drafts of depths) {
        if (candidate.mostLost(drafts) > this.#account) continue;
        const tokens = 1 + found * (expectedTokens(survival, drafts) - 1);
        const ns = found * times.hoped(drafts + 1) + (1 - found) * this.#stepNs;
        const gain = tokens * this.#stepNs / ns;
        if (gain > best.gain) best = { candidate, drafts, gain };
      }
    }
    return best;
  }
}
