/**
 * Chooses how many drafts a round takes by what rounds of the run so far cost and made: the depth with the
 * most tokens a second, or none where single tokens are faster. Reads no clock: times come with the calls.
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

export interface AutoOptions {
  /** Drafts that the drafter can make. */
  readonly most?: number;
  /** V(rows) / S before anything was measured. */
  readonly curve?: VerifyCurve;
}

/** What the next call is for. */
interface Choice {
  readonly drafts: number;
  /** Tokens that it should make: whoever plays asks again after them. */
  readonly tokens: number;
  readonly why: "serial" | "refresh" | "trial" | "gain";
}

export class AutoDrafts implements DraftPolicy {
  readonly #times: PlayTimes;
  readonly #acceptance = new Acceptance();
  readonly #depths: readonly number[];
  /** In ns. */
  #account = 0;
  #sinceTrial = 0;
  #trialTokens = TRIAL_TOKENS_MIN;
  #sinceRefresh = 0;
  #before: Choice["why"] = "serial";
  #choice: Choice | null = null;

  constructor({ most = DRAFTS_MAX, curve = priorCurve }: AutoOptions = {}) {
    const deepest = Math.min(most, DRAFTS_MAX);
    this.#depths = [...DEPTHS.filter((d) => d < deepest), deepest];
    this.#times = new PlayTimes(curve);
  }

  drafts(): number {
    return this.#chosen.drafts;
  }

  /** The tokens after which drafts() may say something else: the next call should not make many more. */
  callTokens(): number {
    return this.#chosen.tokens;
  }

  observe(call: CallOutcome): void {
    const { drafts, why } = this.#chosen;
    this.#choice = null;
    if (call.tokens === 0) return;
    this.#before = why;
    if (call.drafted === 0 && drafts === 0) {
      this.#times.add(1, call.ns / call.tokens);
      this.#account += LOSS_SHARE * call.ns;
      this.#sinceTrial += call.tokens;
      if (why === "refresh") this.#sinceRefresh = 0;
    } else if (this.#times.known) {
      const gain = this.#gainOf(call);
      this.#account += gain + LOSS_SHARE * call.tokens * this.#stepNs;
      // Nothing is verified where a host's drafter found nothing, or the head has yet to draft.
      if (call.drafted > 0) this.#learn(call, gain);
    }
    this.#account = Math.min(this.#account, ACCOUNT_STEPS * this.#stepNs);
  }

  /** Time by which the tokens of a call came sooner than one by one. */
  #gainOf({ ns, rows, rounds, tokens }: CallOutcome): number {
    const expected = rounds * this.#times.estimate(rows);
    const most = this.#times.makesTape(rows, ns / rounds) ? expected : HICCUP * expected;
    return tokens * this.#stepNs - Math.min(ns, most);
  }

  #learn(call: CallOutcome, gain: number): void {
    this.#times.add(call.rows, call.ns / call.rounds);
    this.#acceptance.add(call);
    this.#sinceRefresh += call.rounds;
    if (this.#before === "trial") this.#judgeTrial(gain > 0);
  }

  /** After a trial that paid the next one follows at once: a streak of them is how drafting comes back. */
  #judgeTrial(paid: boolean): void {
    this.#trialTokens = paid ? TRIAL_TOKENS_MIN : Math.min(2 * this.#trialTokens, TRIAL_TOKENS_MAX);
    this.#sinceTrial = paid ? TRIAL_TOKENS_MIN : 0;
  }

  get #stepNs(): number {
    return this.#times.estimate(1);
  }

  get #chosen(): Choice {
    return this.#choice ??= this.#choose();
  }

  #choose(): Choice {
    if (!this.#times.known) return { drafts: 0, tokens: FIRST_TOKENS, why: "serial" };
    if (this.#sinceRefresh >= REFRESH_ROUNDS) {
      this.#times.doubt();
      return { drafts: 0, tokens: REFRESH_TOKENS, why: "refresh" };
    }
    const best = this.#best(this.#acceptance.survival());
    const margin = this.#before === "gain" ? 0 : MARGIN;
    if (best.gain > 1 + margin) {
      const rounds = Math.max(1, Math.floor(this.#account / this.#mostLost(best.drafts)));
      const rows = best.drafts + 1;
      return {
        drafts: best.drafts,
        tokens: this.#times.tried(rows) ? rounds * rows : 1,
        why: "gain",
      };
    }
    const wait = this.#trialTokens - this.#sinceTrial;
    if (wait > 0) return { drafts: 0, tokens: wait, why: "serial" };
    const trial = this.#trialDrafts();
    const missing = this.#mostLost(trial) - this.#account;
    if (missing <= 0) return { drafts: trial, tokens: 1, why: "trial" };
    const tokens = Math.ceil(missing / (LOSS_SHARE * this.#stepNs));
    return { drafts: 0, tokens: Math.max(SERIAL_TOKENS, tokens), why: "serial" };
  }

  /** The depth with the most tokens a time, of those that the account can bear; its rate over serial's. */
  #best(survival: readonly number[]): { drafts: number; gain: number } {
    let best = { drafts: 0, gain: 0 };
    for (const drafts of this.#depths) {
      if (this.#mostLost(drafts) > this.#account) continue;
      const tokens = expectedTokens(survival, drafts);
      const gain = tokens * this.#stepNs / this.#times.hoped(drafts + 1);
      if (gain > best.gain) best = { drafts, gain };
    }
    return best;
  }

  /** The fewest drafts that would pay if the text had become predictable. */
  #trialDrafts(): number {
    const survival = evenSurvival(TRIAL_ACCEPTANCE, DRAFTS_MAX);
    for (const drafts of this.#depths) {
      const steps = this.#times.estimate(drafts + 1) / this.#stepNs;
      if (expectedTokens(survival, drafts) > (1 + MARGIN) * steps) return drafts;
    }
    return this.#depths[0];
  }

  /** What a round loses whose drafts are all wrong. */
  #mostLost(drafts: number): number {
    return Math.max(0, this.#times.estimate(drafts + 1) - this.#stepNs);
  }
}
