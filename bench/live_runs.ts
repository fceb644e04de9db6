/**
 * Runs of a drafter behind a filled timeline, and what they are foretold from: plays of forced outcome along the
 * same tokens, chains of the model's head, and the host's drafter by itself. Times nothing but what a clock is
 * handed in for.
 */
import { GREEDY } from "../engine/generation_config.ts";
import {
  type CallOutcome,
  type Drafter,
  type DraftPolicy,
  fixedDrafts,
} from "../engine/speculate/drafter.ts";
import { mtpDrafter } from "../engine/speculate/mtp.ts";
import { ngramDrafter } from "../engine/speculate/ngram.ts";
import { noDrafter } from "../engine/speculate/none.ts";
import { Rounds } from "../engine/speculate/rounds.ts";
import { scriptedDrafter } from "../engine/speculate/scripted.ts";
import { ROUND_ROWS_MAX } from "./grid.ts";
import { forcedDrafts, selfHitRate } from "./live_rounds.ts";
import type {
  Chain,
  Clock,
  ForcedPlay,
  HitRates,
  LengthCount,
  Produced,
  RunOfRounds,
  RunsEngine,
  SpeculateWork,
} from "./port.ts";
import { idsDigest } from "./prompt.ts";
import type { TimedSession } from "./timed_session.ts";

const DRAFTERS: Readonly<Record<SpeculateWork["drafter"], () => Drafter>> = {
  none: noDrafter,
  ngram: ngramDrafter,
  mtp: mtpDrafter,
};

/** Asks for the same number of drafts in every round, and counts what was verified. */
class Tally implements DraftPolicy {
  readonly #lengths = new Map<number, { plays: number; acceptedAt: number[] }>();
  constructor(readonly most: number) {}

  drafts(): number {
    return this.most;
  }

  observe({ rounds, rows, acceptedAt }: CallOutcome): void {
    const length = this.#lengths.get(rows - 1) ?? { plays: 0, acceptedAt: [] };
    length.plays += rounds;
    length.acceptedAt = acceptedAt.slice(0, rows - 1)
      .map((n, i) => n + (length.acceptedAt[i] ?? 0));
    this.#lengths.set(rows - 1, length);
  }

  get lengths(): LengthCount[] {
    return [...this.#lengths].map(([drafts, counts]) => ({ drafts, ...counts }))
      .sort((a, b) => a.drafts - b.drafts);
  }
}

/** Makes one forced play; gives its tokens. */
type Play = (play: ForcedPlay, at: number) => Promise<Uint32Array>;

export class LiveRuns implements RunsEngine {
  /** `truth` is what serial decode makes behind `timeline`; `rewind` leads back to its last token. */
  constructor(
    readonly session: TimedSession,
    readonly work: SpeculateWork,
    readonly timeline: Uint32Array<ArrayBuffer>,
    readonly truth: Uint32Array,
    readonly rewind: () => Promise<void>,
  ) {}

  get serial(): Produced {
    return { tokens: this.truth.length, digest: idsDigest(this.truth) };
  }

  async run(clock: Clock): Promise<RunOfRounds> {
    const { session, timeline } = this, { drafter: kind, drafts, gen, temperature } = this.work;
    await this.rewind();
    const tally = new Tally(drafts);
    const drafter = DRAFTERS[kind](), inner = drafter.propose.bind(drafter);
    let draftNs = 0;
    drafter.propose = (tokens, room) => {
      const from = clock.now(), draft = inner(tokens, room);
      draftNs += Number(clock.now() - from);
      return draft;
    };
    session.begin({ sampling: { ...GREEDY, temperature }, stopIds: [], limit: gen });
    session.place(timeline[timeline.length - 1]);
    const rounds = new Rounds(session, drafter, tally, () => Number(clock.now()));
    const ids: number[] = [];
    const from = clock.now();
    rounds.begin(timeline);
    const deviceNs = await session.timed(clock, async () => {
      while (ids.length < gen) {
        const call = await rounds.next(gen - ids.length);
        ids.push(...call.ids);
        if (call.halt !== "running") break;
      }
    });
    const ns = Number(clock.now() - from);
    const { rounds: n, serial, drafted, accepted, acceptedAt } = rounds.report;
    return {
      ns,
      deviceNs,
      draftNs,
      rounds: n,
      serial,
      lengths: tally.lengths,
      drafted,
      accepted,
      acceptedAt,
      tokens: ids.length,
      digest: idsDigest(Uint32Array.from(ids)),
      ids,
    };
  }

  async walk(plays: readonly ForcedPlay[], clock: Clock): Promise<number[]> {
    const { truth } = this, times: number[] = [], ids: number[] = [];
    await this.rewind();
    const ahead = Math.max(...plays.map((p) => p.drafts)) + 1;
    const play = plays.some((p) => p.next > 0) ? this.#headPlay() : this.#hostPlay(plays);
    for (let i = 0; ids.length + ahead <= truth.length; i = (i + 1) % plays.length) {
      const from = clock.now(), made = await play(plays[i], ids.length);
      times.push(Number(clock.now() - from));
      ids.push(...made);
      if (made.length !== plays[i].accepted + 1) {
        throw new Error(`A play made ${made.length} of ${plays[i].accepted + 1} tokens`);
      }
    }
    if (ids.some((id, i) => id !== truth[i])) {
      throw new Error("Rounds made other tokens than decode");
    }
    return times;
  }

  /** As a host's drafter has it: by the driver of rounds. */
  #hostPlay(plays: readonly ForcedPlay[]): Play {
    const script = plays.map((p) => ({ length: p.drafts, right: p.accepted }));
    const { session, timeline, truth } = this;
    const drafter = scriptedDrafter([...timeline, ...truth], script, session.model.vocabUsed);
    const rounds = new Rounds(session, drafter, fixedDrafts(ROUND_ROWS_MAX - 1));
    rounds.begin(timeline);
    return async () => (await rounds.next(1)).ids;
  }

  /** As in the middle of the head's chain, but for its drafts, which are replaced. */
  #headPlay(): Play {
    const { session, truth } = this;
    return async ({ drafts, accepted, next }, at) => {
      const rows = drafts + 1;
      if (drafts === 0) await session.decode(1, next);
      else {
        const ahead = truth.subarray(at);
        session.draft(forcedDrafts(ahead, rows, accepted, session.model.vocabUsed));
        await session.rounds(1, { rows, drafts: next });
      }
      return session.take();
    };
  }

  async chain(clock: Clock): Promise<Chain> {
    const { session, timeline } = this, { drafts, gen } = this.work, rows = drafts + 1;
    await this.rewind();
    session.place((timeline[timeline.length - 1] + 1) % session.model.vocabUsed);
    await session.decode(1, drafts);
    const from = clock.now();
    await session.rounds(Math.max(1, Math.floor(gen / rows) - 1), { rows, drafts });
    const ns = Number(clock.now() - from), { rounds, acceptedAt } = session.counts();
    return { ns, length: { drafts, plays: rounds, acceptedAt: acceptedAt.slice(0, drafts) } };
  }

  proposeNs(times: number, clock: Clock): number {
    const { timeline, truth } = this, { drafter: kind, drafts } = this.work;
    const drafter = DRAFTERS[kind](), tokens = [...timeline];
    if (drafter.onDevice) return 0;
    let ns = 0;
    for (let i = 0; i < times; i++) {
      const from = clock.now();
      drafter.propose(tokens, drafts);
      ns += Number(clock.now() - from);
      const grown = Math.floor((i + 1) * truth.length / times);
      tokens.push(...truth.subarray(tokens.length - timeline.length, grown));
    }
    return ns;
  }

  hitRates(): HitRates {
    const prompt = this.timeline.subarray(0, -1);
    return {
      prompt: selfHitRate(prompt),
      output: selfHitRate([...prompt, ...this.truth], prompt.length),
    };
  }
}
