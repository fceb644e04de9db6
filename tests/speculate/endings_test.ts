/**
 * How rounds end: stop tokens inside accepted drafts, budgets smaller than the drafts, the end of the context.
 * Beside serial decode, which is what they must equal; and what rounds may cost in plays.
 */
import assert from "node:assert/strict";
import { DRAFTS_MAX } from "../../kernels/step.ts";
import {
  compare,
  draftAt,
  MODELS,
  type Pair,
  somePrompt,
  start,
  truthOf,
  withPair,
} from "./lockstep.ts";
import { callsOf } from "./plays.ts";

const FROM = 20;
const PLANS = [false, true];

/** One round of `length` drafts of which `right` are right, behind the prompt. */
async function oneRound(pair: Pair, truth: readonly number[], length: number, right: number) {
  const { rounds, model } = pair;
  rounds.draft(draftAt(truth, rounds.pos, { length, right }, model.config.vocab));
  return await rounds.rounds(1, { rows: length + 1 });
}

for (const actInt8 of PLANS) {
  Deno.test(`a stop token inside accepted drafts ends the run, actInt8=${actInt8}`, async () => {
    await withPair(MODELS.tiny, { actInt8 }, async (pair) => {
      const prompt = somePrompt(pair.model, FROM);
      const truth = await truthOf(pair.serial, prompt, 40);
      const made = truth.slice(FROM);
      for (let place = 1; place < 8; place++) {
        const stop = made[place], first = made.indexOf(stop);
        for (const right of [Math.max(0, place - 1), 7]) {
          await start(pair, prompt, { stopIds: [stop] });
          if (first === 0) assert.equal(pair.rounds.halted(), "stopToken");
          const halt = await oneRound(pair, truth, 7, right);
          const what = `stop at ${first}, ${right} right`;
          const got = await compare(pair, what);
          assert.equal(halt, first <= right + 1 ? "stopToken" : "running", what);
          assert.deepEqual(got, made.slice(0, halt === "stopToken" ? first + 1 : right + 2), what);
          // Nothing more is made.
          if (halt !== "stopToken") continue;
          await pair.rounds.rounds(4, { rows: 8 });
          assert.deepEqual(await compare(pair, what), []);
        }
      }
    });
  });

  Deno.test(`a budget smaller than the drafts is never overshot, actInt8=${actInt8}`, async () => {
    await withPair(MODELS.tiny, { actInt8 }, async (pair) => {
      const prompt = somePrompt(pair.model, FROM);
      const truth = await truthOf(pair.serial, prompt, 40);
      for (let limit = 1; limit <= 10; limit++) {
        await start(pair, prompt, { limit });
        const halt = await oneRound(pair, truth, 8, 8);
        const got = await compare(pair, `limit ${limit}`);
        assert.deepEqual(got, truth.slice(FROM, FROM + Math.min(limit, 10)));
        assert.equal(halt, "budget");
      }
    });
  });

  Deno.test(`rounds stop at the end of the context, actInt8=${actInt8}`, async () => {
    for (let room = 1; room <= 9; room++) {
      const session = { ctx: FROM + room };
      await withPair(MODELS["dense head"], { actInt8, session, draftHead: true }, async (pair) => {
        const prompt = somePrompt(pair.model, FROM);
        const truth = [...await truthOf(pair.serial, prompt, room + 1), ...Array(20).fill(1)];
        for (const right of [0, 3, 8]) {
          await start(pair, prompt);
          const what = `room ${room}, ${right} right`;
          const got = await compare(pair, what);
          for (let n = 0; pair.rounds.halted() === "running" && n < 20; n++) {
            await oneRound(pair, truth, 8, right);
            got.push(...await compare(pair, what));
          }
          assert.equal(pair.rounds.halted(), "contextFull", what);
          assert.deepEqual(got, truth.slice(FROM, FROM + room + 1), what);
          assert.equal(await pair.rounds.rounds(3, { rows: 4 }), "contextFull");
        }
        await start(pair, prompt, { drafts: 3 });
        await pair.rounds.rounds(50, { rows: 4, drafts: 3 });
        await compare(pair, `room ${room}, head`);
        assert.equal(pair.rounds.halted(), "contextFull");
      });
    }
  });
}

Deno.test("a round costs one play, whatever is kept of it", async () => {
  await withPair(MODELS.dense, {}, async (pair) => {
    const prompt = somePrompt(pair.model, FROM);
    const truth = await truthOf(pair.serial, prompt, 200);
    await start(pair, prompt);
    await compare(pair, "prompt");
    for (let right = 0; right <= DRAFTS_MAX; right++) {
      const calls = await callsOf(() => oneRound(pair, truth, DRAFTS_MAX, right));
      assert.deepEqual(calls, [{ times: 1, played: 1 }], `${right} right`);
      await compare(pair, `${right} right`);
    }
  });
});
