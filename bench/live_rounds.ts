/**
 * Speculative rounds on a filled session: rounds of one width whose outcome is forced, the time of their
 * commit, and whole runs of a drafter. Times nothing but what a clock is handed in for.
 */
import { GREEDY } from "../engine/generation_config.ts";
import type { Drafter } from "../engine/speculate/drafter.ts";
import { fixedDrafts } from "../engine/speculate/drafter.ts";
import { mtpDrafter } from "../engine/speculate/mtp.ts";
import { ngramDrafter } from "../engine/speculate/ngram.ts";
import { noDrafter } from "../engine/speculate/none.ts";
import { Rounds } from "../engine/speculate/rounds.ts";
import type { Clock, RunOfRounds, SpeculateWork } from "./port.ts";
import { idsDigest } from "./prompt.ts";
import type { TimedSession } from "./timed_session.ts";

const COMMITS: ReadonlySet<string> = new Set(["gdn_commit", "conv_commit"]);
const PROFILES = 5;

const DRAFTERS: Readonly<Record<SpeculateWork["drafter"], () => Drafter>> = {
  none: noDrafter,
  ngram: ngramDrafter,
  mtp: mtpDrafter,
};

/** What the drafts of a forced round are taken from: the tokens that serial decode makes. */
export function forcedDrafts(
  truth: ArrayLike<number>,
  rows: number,
  accepted: number,
  vocab: number,
): number[] {
  return Array.from(
    { length: rows - 1 },
    (_, i) => i < accepted ? truth[i] : (truth[i] + 1) % vocab,
  );
}

/** Commit records of a round that keeps `accepted` drafts: the least disturbed of some profiles. */
export async function commitTime(
  session: TimedSession,
  shape: { rows: number; drafts: readonly number[] },
  rewind: () => Promise<void>,
): Promise<number> {
  const { rows, drafts } = shape;
  let least = Infinity;
  for (let i = 0; i < PROFILES; i++) {
    await rewind();
    session.draft(drafts);
    const { loaded, planned } = session.tapeFor(rows, session.pos + rows, "round");
    const times = loaded.profile(planned.records.length);
    const commits = planned.records.map((r, at) => COMMITS.has(r.op.name) ? Number(times[at]) : 0);
    least = Math.min(least, commits.reduce((sum, ns) => sum + ns, 0));
  }
  await rewind();
  return least;
}

/** A run of rounds behind `timeline`, whose last token is the one to go on from. */
export async function runRounds(
  session: TimedSession,
  timeline: Uint32Array<ArrayBuffer>,
  { drafter: kind, drafts, gen }: SpeculateWork,
  clock: Clock,
): Promise<RunOfRounds> {
  const drafter = DRAFTERS[kind](), inner = drafter.propose.bind(drafter);
  let draftNs = 0;
  drafter.propose = (tokens, room) => {
    const from = clock.now(), draft = inner(tokens, room);
    draftNs += Number(clock.now() - from);
    return draft;
  };
  session.begin({ sampling: GREEDY, stopIds: [], limit: gen });
  session.place(timeline[timeline.length - 1]);
  const rounds = new Rounds(session, drafter, fixedDrafts(drafts), () => Number(clock.now()));
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
    drafted,
    accepted,
    acceptedAt,
    tokens: ids.length,
    digest: idsDigest(Uint32Array.from(ids)),
    ids,
  };
}

/**
 * Share of the ids behind the first `known` that the n-gram drafter foretells from those before: how much a
 * text repeats itself. Null where there are none.
 */
export function selfHitRate(ids: ArrayLike<number>, known = 0): number | null {
  const drafter = ngramDrafter(), before: number[] = [];
  let hits = 0;
  for (let i = 0; i < ids.length; i++) {
    if (drafter.propose(before, 1).ids[0] === ids[i] && i >= known) hits++;
    before.push(ids[i]);
  }
  return ids.length > known ? hits / (ids.length - known) : null;
}
