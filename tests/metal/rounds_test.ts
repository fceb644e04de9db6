/**
 * Speculative rounds of the built-in model through the Metal player: verify, accept and commit in one tape. Tokens are
 * the golden ones, states and caches bit by bit those of the emulator.
 */
import assert from "node:assert/strict";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { draftAt } from "../speculate/lockstep.ts";
import { GOLDEN_TOKENS } from "./golden_tokens.ts";
import { fake, LIBRARY, metalTest } from "./rig.ts";

interface Outcome {
  readonly tokens: readonly number[];
  readonly pos: number;
  readonly counts: ReturnType<Session["counts"]>;
  readonly states: ReturnType<Session["readStates"]>;
}

async function outcome(
  kind: DeviceKind,
  play: (session: Session, golden: readonly number[]) => Promise<unknown>,
): Promise<Outcome> {
  const [{ ids, tokens }] = GOLDEN_TOKENS;
  using device = openDevice({ kind, library: LIBRARY });
  using model = await openModel("tiny", { device, env: {}, draftHead: true });
  using session = new Session(model, { kv: "f32", ctx: 96, draftHead: true });
  session.begin({ sampling: GREEDY, stopIds: [], limit: tokens.length });
  await session.prefill(ids, undefined, 3);
  await play(session, [...ids, ...tokens]);
  const { pos } = session, counts = session.counts();
  return { tokens: [...session.take()], pos, counts, states: session.readStates() };
}

async function sameOnBoth(play: Parameters<typeof outcome>[1]): Promise<Outcome> {
  const want = await outcome("emu", play), got = await outcome("metal", play);
  assert.deepEqual(got, want);
  const n = got.tokens.length;
  assert.deepEqual(got.tokens, GOLDEN_TOKENS[0].tokens.slice(0, n));
  return got;
}

metalTest("rounds that keep all drafts, some and none say the golden tokens", async () => {
  const KEPT = [3, 0, 1, 3, 2];
  const { tokens, counts } = await sameOnBoth(async (session, golden) => {
    for (const right of KEPT) {
      const { vocab } = session.model.config;
      session.draft(draftAt(golden, session.pos, { length: 3, right }, vocab));
      await session.rounds(1, { rows: 4 });
    }
  });
  const accepted = KEPT.reduce((a, b) => a + b);
  assert.deepEqual([counts.rounds, counts.accepted], [KEPT.length, accepted]);
  assert.equal(tokens.length, 1 + KEPT.length + accepted);
});

metalTest("rounds that the MTP head drafts for are one command buffer each", async () => {
  const names = ["command buffers", "encoders", "made FakeBuffer"];
  const made: number[][] = [];
  const { tokens, counts } = await sameOnBoth(async (session) => {
    const round = { rows: 4, drafts: 3 };
    await session.rounds(1, round);
    const before = fake.counts(...names);
    await session.rounds(4, round);
    made.push(fake.counts(...names).map((n, i) => n - before[i]));
  });
  assert.equal(counts.rounds, 5);
  assert.equal(tokens.length, 1 + 5 + counts.accepted);
  assert.deepEqual(made, [[0, 0, 0], [4, 4, 0]]);
});
