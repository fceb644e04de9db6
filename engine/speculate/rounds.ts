/**
 * Drives a session through speculative rounds: asks the policy how many drafts, the drafter which, plays,
 * and tells both what came of it. Owns no memory and no tape; at every width the tokens, states and caches
 * are those of serial decode.
 */
import { ROWS_MAX } from "../../kernels/models/forward.ts";
import { DRAFTS_MAX, type HaltReason } from "../../kernels/step.ts";
import type { Session } from "../session.ts";
import type { RoundCounts } from "../step_block.ts";
import { type Drafter, type DraftPolicy, NO_DRAFT } from "./drafter.ts";

/** What rounds came to since begin(). */
export interface RoundsReport extends RoundCounts {
  readonly drafter: string;
  /** Tokens made one at a time, where the policy wanted no drafts. */
  readonly serial: number;
}

export interface RoundsCall {
  readonly ids: Uint32Array;
  readonly halt: HaltReason;
}

/** What one play after another came to, to be told apart by call. */
interface Before {
  readonly counts: RoundCounts;
  readonly pos: number;
  readonly ns: number;
}

export class Rounds {
  readonly #tokens: number[] = [];
  readonly #drafters: readonly Drafter[];
  #serial = 0;
  /** Drafts that the head has left behind the position. */
  #standing = 0;

  constructor(
    readonly session: Session,
    /** Several where the policy chooses among them. */
    drafters: Drafter | readonly Drafter[],
    readonly policy: DraftPolicy,
    /** Nanoseconds of a clock that only goes on. */
    readonly now: () => number = () => performance.now() * 1e6,
  ) {
    this.#drafters = [drafters].flat();
  }

  /** A run begins: `tokens` is the timeline before the first sampled token. */
  begin(tokens: ArrayLike<number>): void {
    this.#tokens.length = 0;
    for (let i = 0; i < tokens.length; i++) this.#tokens.push(tokens[i]);
    this.#serial = 0;
    this.#standing = 0;
    for (const drafter of this.#drafters) drafter.begin();
  }

  /** Prefills `prompt`; the head drafts behind it if it is to. Needs the session's begin() and this one's. */
  async prefill(prompt: Uint32Array<ArrayBuffer>, signal?: AbortSignal): Promise<void> {
    const drafts = this.#drafter.onDevice ? this.#wanted() : 0;
    await this.session.prefill(prompt, signal, drafts);
    this.#standing = drafts;
  }

  /** New tokens, for callers that play by themselves between calls. */
  take(): Uint32Array {
    const ids = this.session.take();
    for (const id of ids) this.#tokens.push(id);
    return ids;
  }

  /** One call into the device that makes about `tokens` tokens or fewer, one at least unless the run ended. */
  async next(tokens: number): Promise<RoundsCall> {
    const early = this.take(), drafts = this.#wanted();
    const most = Math.max(1, Math.min(tokens, this.policy.callTokens?.() ?? tokens));
    const before: Before = {
      counts: this.session.counts(),
      pos: this.session.pos,
      ns: this.now(),
    };
    const drafter = this.#drafter;
    const { halt, plays, rows } = drafter.onDevice
      ? await this.#playHead(most, drafts)
      : await this.#playHost(drafter, most, drafts);
    const late = this.take();
    this.#tell(before, rows, plays);
    return { ids: Uint32Array.from([...early, ...late]), halt };
  }

  get report(): RoundsReport {
    const drafter = this.#drafters.map((d) => d.name).join("+");
    return { drafter, serial: this.#serial, ...this.session.counts() };
  }

  get #drafter(): Drafter {
    return this.#drafters[this.policy.drafter?.() ?? 0];
  }

  #wanted(): number {
    return Math.max(0, Math.min(this.policy.drafts(), DRAFTS_MAX, ROWS_MAX - 1));
  }

  /** Rounds chain on the device: each leaves the drafts of the next one. */
  async #playHead(tokens: number, drafts: number) {
    const before = this.session.pos;
    // Without drafts to verify a single token is cheaper, and leaves the head's drafts just as well.
    if (this.#standing === 0) {
      const halt = await this.session.decode(drafts > 0 ? 1 : tokens, drafts);
      this.#standing = drafts;
      return { halt, plays: this.session.pos - before, rows: 1 };
    }
    const rows = this.#standing + 1;
    // As many rounds as make the tokens if every draft is kept; one where the width is to change.
    const times = rows === drafts + 1 ? Math.ceil(tokens / rows) : 1;
    const was = this.session.counts().rounds;
    const halt = await this.session.rounds(times, { rows, drafts });
    this.#standing = drafts;
    return { halt, plays: this.session.counts().rounds - was, rows };
  }

  async #playHost(drafter: Drafter, tokens: number, drafts: number) {
    const before = this.session.pos;
    // What the head may have left is for this position alone.
    this.#standing = 0;
    const draft = drafts > 0 ? drafter.propose(this.#tokens, drafts) : NO_DRAFT;
    if (draft.parents || draft.probabilities) {
      throw new Error(`Rounds verify chains of sure drafts; ${drafter.name} gave others`);
    }
    const ids = draft.ids.slice(0, drafts);
    if (ids.length === 0) {
      const halt = await this.session.decode(drafts > 0 ? 1 : tokens);
      return { halt, plays: this.session.pos - before, rows: 1 };
    }
    this.session.draft(ids);
    const was = this.session.counts();
    const halt = await this.session.rounds(1, { rows: ids.length + 1 });
    const now = this.session.counts();
    const accepted = now.accepted - was.accepted;
    drafter.observe({ drafted: now.drafted - was.drafted, accepted });
    return { halt, plays: 1, rows: ids.length + 1 };
  }

  #tell(before: Before, rows: number, plays: number): void {
    const { counts: was } = before, now = this.session.counts();
    const tokens = this.session.pos - before.pos;
    if (now.rounds === was.rounds) this.#serial += tokens;
    this.policy.observe({
      rounds: plays,
      rows,
      tokens,
      drafted: now.drafted - was.drafted,
      accepted: now.accepted - was.accepted,
      acceptedAt: now.acceptedAt.map((n, i) => n - was.acceptedAt[i]),
      standing: this.#standing,
      ns: this.now() - before.ns,
    });
  }
}
