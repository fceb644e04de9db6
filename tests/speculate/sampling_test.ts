/** Sampled speculation: the very stream of plain sampling under a seed, and its distribution under others. */
import assert from "node:assert/strict";
import { GREEDY, type Sampling } from "../../engine/generation_config.ts";
import {
  compare,
  draftAt,
  ENDLESS,
  MODELS,
  somePrompt,
  start,
  truthOf,
  withPair,
} from "./lockstep.ts";

const FROM = 24;
const SETTINGS: readonly Partial<Sampling>[] = [
  { temperature: 1 },
  { temperature: 0.8, topK: 40, topP: 0.95 },
  { temperature: 1.5, minP: 0.02, repeatPenalty: 1.2, repeatWindow: 16 },
  { temperature: 0, repeatPenalty: 1.3, repeatWindow: 8 },
];

for (const actInt8 of [false, true]) {
  for (const [i, setting] of SETTINGS.entries()) {
    const sampling = { ...GREEDY, seed: 2 ** 33 + 7 * i, ...setting };
    const label = `${JSON.stringify(setting)}, actInt8=${actInt8}`;
    Deno.test(`rounds draw what single tokens draw: ${label}`, async () => {
      await withPair(MODELS.tiny, { actInt8, draftHead: true }, async (pair) => {
        const { rounds, model } = pair, prompt = somePrompt(model, FROM);
        const truth = await truthOf(pair.serial, prompt, 90, sampling);
        await start(pair, prompt, { sampling, drafts: 2 });
        for (let n = 0; n < 4; n++) {
          await rounds.rounds(2, { rows: 3, drafts: 2 });
          await compare(pair, `head, round ${n}`);
        }
        for (const [length, right] of [[4, 4], [4, 1], [15, 15], [7, 0], [1, 1], [3, 2]]) {
          rounds.draft(draftAt(truth, rounds.pos, { length, right }, model.config.vocab));
          await rounds.rounds(1, { rows: length + 1 });
          await compare(pair, `${right} of ${length} right`);
        }
      });
    });
  }
}

/** Two samples of counts: is it one distribution? The statistic and its 0.1 % bound. */
function homogeneity(a: Map<string, number>, b: Map<string, number>) {
  const total = (m: Map<string, number>) => [...m.values()].reduce((x, y) => x + y, 0);
  const k = Math.sqrt(total(b) / total(a));
  // Rare cells count as one.
  const sums = new Map<string, [number, number]>();
  for (const key of new Set([...a.keys(), ...b.keys()])) {
    const x = a.get(key) ?? 0, y = b.get(key) ?? 0;
    const cell = sums.get(x + y < 12 ? "rare" : key) ?? [0, 0];
    sums.set(x + y < 12 ? "rare" : key, [cell[0] + x, cell[1] + y]);
  }
  const cells = [...sums.values()].filter(([x, y]) => x + y > 0);
  const statistic = cells.reduce((s, [x, y]) => s + (k * x - y / k) ** 2 / (x + y), 0);
  const df = cells.length - 1;
  // Wilson and Hilferty, 3.09 deviations.
  const bound = df * (1 - 2 / (9 * df) + 3.09 * Math.sqrt(2 / (9 * df))) ** 3;
  return { statistic, bound, df };
}

Deno.test("sampled speculation has the distribution of plain sampling: chi-square", async () => {
  await withPair(MODELS.dense, { session: { ctx: 64 } }, async ({ model, serial, rounds }) => {
    const prompt = somePrompt(model, FROM), first = prompt.slice(0, -1), last = prompt.slice(-1);
    const setting = { ...GREEDY, temperature: 1, topK: 4 };
    const likely = await truthOf(serial, prompt, 3);
    for (const session of [serial, rounds]) {
      session.reset();
      await session.forward(first, "none");
    }
    using before = serial.snapshot(), behind = rounds.snapshot();
    const runs = 1200, plain = new Map<string, number>(), speculated = new Map<string, number>();
    const count = (m: Map<string, number>, ids: ArrayLike<number>) => {
      const key = [ids[0], ids[1], ids[2]].join();
      m.set(key, (m.get(key) ?? 0) + 1);
    };
    const taken = new Map<string, number>();
    let accepted = 0, drafted = 0;
    for (let seed = 0; seed < runs; seed++) {
      serial.restore(before);
      serial.begin({ sampling: { ...setting, seed }, stopIds: [], limit: ENDLESS });
      await serial.prefill(last);
      await serial.decode(2);
      count(plain, serial.take());
      rounds.restore(behind);
      rounds.begin({ sampling: { ...setting, seed: runs + seed }, stopIds: [], limit: ENDLESS });
      await rounds.prefill(last);
      // Drafts that are often right behind the likeliest token and never behind others.
      rounds.draft([likely[FROM + 1], likely[FROM + 2]]);
      await rounds.rounds(1, { rows: 3 });
      while (rounds.pos < FROM + 2) await rounds.rounds(1, { rows: 3 });
      const ids = rounds.take();
      count(speculated, ids);
      accepted += rounds.counts().accepted;
      drafted += rounds.counts().drafted;
      // What a driver would make that takes its first draft without asking.
      count(taken, [ids[0], likely[FROM + 1], ids[2]]);
    }
    assert(accepted > drafted / 20 && accepted < drafted, `${accepted} of ${drafted} accepted`);
    const fair = homogeneity(plain, speculated);
    assert(fair.df >= 8, `${fair.df} degrees of freedom`);
    assert(fair.statistic < fair.bound, `chi-square ${fair.statistic}, bound ${fair.bound}`);
    const unfair = homogeneity(plain, taken);
    assert(unfair.statistic > unfair.bound, "the test sees what is not fair");
  });
});
