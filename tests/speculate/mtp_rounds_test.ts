/** Rounds that the MTP head drafts for: one call for many, and a head that is fed as if token by token. */
import assert from "node:assert/strict";
import { GREEDY } from "../../engine/generation_config.ts";
import {
  compare,
  draftAt,
  ENDLESS,
  MODELS,
  type Pair,
  somePrompt,
  start,
  truthOf,
  withPair,
} from "./lockstep.ts";
import { callsOf } from "./plays.ts";

const FROM = 20;

Deno.test("rounds of the MTP head chain on the device: many in one call", async () => {
  for (const actInt8 of [false, true]) {
    await withPair(MODELS.tiny, { actInt8, draftHead: true }, async (pair) => {
      const prompt = somePrompt(pair.model, FROM);
      for (const drafts of [1, 2, 4, 15]) {
        await start(pair, prompt, { drafts });
        const rounds = () => pair.rounds.rounds(8, { rows: drafts + 1, drafts });
        assert.deepEqual(await callsOf(rounds), [{ times: 8, played: 8 }]);
        const counts = pair.rounds.counts();
        assert.equal(counts.rounds, 8);
        assert.equal(counts.drafted, 8 * drafts);
        assert.equal(pair.rounds.pos, FROM + 8 + counts.accepted);
        assert(counts.accepted > 0, "the head is right now and then");
        await compare(pair, `${drafts} drafts`);
      }
    });
  }
});

Deno.test("the head's cache is the same however wide the rounds were", async () => {
  await withPair(MODELS.tiny, { draftHead: true }, async (pair) => {
    const { rounds, model } = pair, prompt = somePrompt(model, FROM);
    const truth = await truthOf(pair.serial, prompt, 60);
    const caches: string[] = [];
    for (const [length, right] of [[0, 0], [3, 2], [15, 4], [15, 15]]) {
      rounds.reset();
      rounds.begin({ sampling: GREEDY, stopIds: [], limit: 48 });
      await rounds.prefill(prompt);
      while (rounds.halted() === "running") {
        rounds.draft(draftAt(truth, rounds.pos, { length, right }, model.config.vocab));
        await rounds.rounds(1, { rows: length + 1 });
      }
      const perHead = rounds.ctx * model.config.headDim * 2;
      const pairs = rounds.pos * model.config.headDim * 2;
      const all = rounds.readStates();
      const parts = ["k", "v"].flatMap((which) => {
        const bytes = all.get(`kv.mtp.${which}`)!;
        return Array.from(
          { length: model.config.kvHeads },
          (_, h) => [...bytes.subarray(h * perHead, h * perHead + pairs)].join(),
        );
      });
      caches.push(parts.join(";"));
    }
    for (const c of caches) assert(c === caches[0]);
  });
});

Deno.test("drafts of another position are not verified", async () => {
  await withPair(MODELS["dense head"], { draftHead: true }, async (pair) => {
    const { rounds } = pair, prompt = somePrompt(pair.model, FROM);
    const moves: (() => unknown)[] = [
      () => rounds.decode(2),
      () => rounds.place(7),
      () => {
        using here = rounds.snapshot();
        rounds.restore(here);
      },
    ];
    for (const move of moves) {
      await start(pair, prompt, { drafts: 3 });
      assert.equal(rounds.drafts().length, 3);
      await move();
      assert.equal(rounds.drafts().length, 0);
      await rounds.rounds(1, { rows: 4 });
      assert.deepEqual([rounds.counts().rounds, rounds.counts().drafted], [1, 0]);
    }
  });
});

/** The head's drafts behind every position, when every token is decoded by itself. */
async function draftsAlong(
  pair: Pair,
  prompt: Uint32Array<ArrayBuffer>,
  n: number,
  drafts: number,
) {
  const { rounds } = pair, out = new Map<number, number[]>();
  rounds.reset();
  rounds.begin({ sampling: GREEDY, stopIds: [], limit: ENDLESS });
  await rounds.prefill(prompt, undefined, drafts);
  for (let i = 0; i < n; i++) {
    out.set(rounds.pos, [...rounds.drafts()]);
    await rounds.decode(1, drafts);
  }
  return out;
}

for (const name of ["tiny", "dense head"]) {
  Deno.test(`${name}: drafts behind any round are those of token by token`, async () => {
    for (const actInt8 of [false, true]) {
      await withPair(MODELS[name], { actInt8, draftHead: true }, async (pair) => {
        const { rounds, model } = pair, prompt = somePrompt(model, FROM), drafts = 4;
        const truth = await truthOf(pair.serial, prompt, 100);
        const want = await draftsAlong(pair, prompt, 90, drafts);
        await start(pair, prompt, { drafts });
        await compare(pair, "prompt");
        assert.deepEqual([...rounds.drafts()], want.get(rounds.pos));
        for (const [length, right] of [[0, 0], [4, 4], [15, 3], [6, 0], [1, 1], [15, 15], [3, 2]]) {
          rounds.draft(draftAt(truth, rounds.pos, { length, right }, model.config.vocab));
          await rounds.rounds(1, { rows: length + 1, drafts });
          const what = `${right} of ${length} right`;
          assert.deepEqual([...rounds.drafts()], want.get(rounds.pos), what);
          await compare(pair, what);
          // The policy may turn drafting off for a while: the head is fed all the same.
          await rounds.decode(2);
          assert.equal(rounds.drafts().length, 0);
          await rounds.decode(1, drafts);
          assert.deepEqual([...rounds.drafts()], want.get(rounds.pos), `${what}, serial`);
          await compare(pair, what);
        }
      });
    }
  });
}
