/**
 * Speculative rounds of one width on a filled session: drafts that force their outcome, the time of their commit,
 * and how much a text repeats itself.
 */
import { ngramDrafter } from "../engine/speculate/ngram.ts";
import type { TimedSession } from "./timed_session.ts";

const COMMIT = "gdn_commit";
const PROFILES = 3;

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
    const commits = planned.records.map((r, at) => r.op.name === COMMIT ? Number(times[at]) : 0);
    least = Math.min(least, commits.reduce((sum, ns) => sum + ns, 0));
  }
  await rewind();
  return least;
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
