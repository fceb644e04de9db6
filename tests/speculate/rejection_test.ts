/** Rejection forced at every place and full acceptance, every width: the bytes are those of serial decode. */
import assert from "node:assert/strict";
import { defaultPlan } from "../../engine/model.ts";
import { DRAFTS_MAX } from "../../kernels/step.ts";
import {
  compare,
  compareLogits,
  draftAt,
  everyRejection,
  MODELS,
  type Pair,
  type PairOptions,
  somePrompt,
  start,
  truthOf,
  withPair,
} from "./lockstep.ts";

const ALL = Array.from({ length: DRAFTS_MAX + 1 }, (_, i) => i + 1);

async function rejectEverywhere(pair: Pair, widths: readonly number[], from: number) {
  const { serial, rounds, model } = pair;
  const prompt = somePrompt(model, from);
  const list = everyRejection(widths);
  const tokens = list.reduce((n, r) => n + r.right + 1, 0);
  const truth = await truthOf(serial, prompt, tokens + DRAFTS_MAX + 1);
  await start(pair, prompt);
  await compare(pair, "prompt");
  for (const { rows, right } of list) {
    const what = `${rows} rows, ${right} right`;
    const before = rounds.pos;
    rounds.draft(draftAt(truth, before, { length: rows - 1, right }, model.config.vocab));
    await rounds.rounds(1, { rows });
    assert.equal(rounds.pos - before, right + 1, what);
    await compare(pair, what);
    compareLogits(pair, rows, right + 1, what);
  }
  const { rounds: played, accepted, acceptedAt } = rounds.counts();
  assert.equal(played, list.length);
  assert.equal(accepted, tokens - list.length);
  const at = (i: number) => list.filter((r) => r.right > i).length;
  assert.deepEqual(acceptedAt, Array.from({ length: DRAFTS_MAX }, (_, i) => at(i)));
}

/** What is run on which player; widths_test.ts has all widths on those that play .metal kernels. */
const RUNS: readonly (PairOptions & { name: string; widths: readonly number[]; from: number })[] = [
  ...["tiny", "dense", "moe"].flatMap((name) =>
    [false, true].map((actInt8) => ({ name, actInt8, widths: ALL, from: 30 }))
  ),
  ...["tiny", "dense", "moe"].map((name) => ({ name, fused: true, widths: ALL, from: 30 })),
  { name: "tiny", actInt8: true, fused: true, widths: [4], from: 30 },
  // Across the first block of keys, where another form of attention takes over.
  ...[false, true].map((fused) => ({
    name: "dense",
    fused,
    widths: [2, 16],
    from: 240,
    session: { kv: "q8" } as const,
  })),
  { name: "moe", kind: "emu", widths: [3], from: 250 },
  { name: "moe", kind: "emu", fused: false, widths: [2], from: 30 },
];

for (const { name, widths, from, ...options } of RUNS) {
  const { kind = "cpu", actInt8 = false, fused = defaultPlan(kind).fused } = options;
  const plan = `actInt8=${actInt8}, fused=${fused}`;
  const label = `${kind}, ${name}, ${plan}, widths ${widths[0]} to ${widths.at(-1)} from ${from}`;
  Deno.test(`rounds equal serial decode at every rejection: ${label}`, async () => {
    const session = { ctx: 1024, ...options.session };
    await withPair(
      MODELS[name],
      { ...options, session },
      (pair) => rejectEverywhere(pair, widths, from),
    );
  });
}
