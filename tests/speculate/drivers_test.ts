/** Every drafter through the driver of rounds, a call at a time beside serial decode. */
import assert from "node:assert/strict";
import { defaultPlan } from "../../engine/model.ts";
import { type Drafter, type DraftPolicy, fixedDrafts } from "../../engine/speculate/drafter.ts";
import { mtpDrafter } from "../../engine/speculate/mtp.ts";
import { ngramDrafter } from "../../engine/speculate/ngram.ts";
import { noDrafter } from "../../engine/speculate/none.ts";
import { Rounds } from "../../engine/speculate/rounds.ts";
import { scriptedDrafter } from "../../engine/speculate/scripted.ts";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import {
  compare,
  ENDLESS,
  MODELS,
  type Pair,
  somePrompt,
  start,
  truthOf,
  withPair,
} from "./lockstep.ts";
import { withRandomHead } from "./random_head.ts";

const MOE = new URL("../fixtures/qwen35-moe-tiny", import.meta.url).pathname;

interface Drive {
  readonly tokens: number;
  readonly from: number;
  /** Tokens that a call is asked for. */
  readonly perCall: number;
}

async function drive(
  pair: Pair,
  drafter: Drafter | Drafter[],
  policy: DraftPolicy,
  d: Drive,
  what: string,
) {
  const prompt = somePrompt(pair.model, d.from);
  const rounds = new Rounds(pair.rounds, drafter, policy);
  await start(pair, prompt);
  pair.rounds.reset();
  pair.rounds.begin({ sampling: GREEDY, stopIds: [], limit: ENDLESS });
  rounds.begin(prompt);
  await rounds.prefill(prompt);
  assert.deepEqual(rounds.take(), pair.serial.take(), `${what}: first token`);
  while (pair.rounds.pos < d.from + d.tokens) {
    const { ids } = await rounds.next(d.perCall);
    const n = pair.rounds.pos - pair.serial.pos;
    assert(n >= 1, `${what}: a call makes a token`);
    await pair.serial.decode(n);
    assert.deepEqual(ids, pair.serial.take(), `${what}: tokens`);
    await compare(pair, what);
  }
  return rounds.report;
}

const CHANGING = [
  { length: 0, right: 0 },
  { length: 3, right: 3 },
  { length: 5, right: 2 },
  { length: 1, right: 0 },
  { length: 0, right: 0 },
  { length: 15, right: 15 },
  { length: 2, right: 1 },
  { length: 7, right: 0 },
  { length: 1, right: 1 },
];

/** Another number of drafts for every call, none among them, and another drafter. */
function changing(list: readonly number[], drafters: readonly number[] = [0]): DraftPolicy {
  let call = 0;
  return {
    drafts: () => list[call % list.length],
    drafter: () => drafters[call % drafters.length],
    observe: () => void call++,
  };
}

async function everyDrafter(pair: Pair, d: Drive): Promise<void> {
  const { vocab } = pair.model.config;
  const truth = await truthOf(pair.serial, somePrompt(pair.model, d.from), d.tokens + 40);
  const scripted = () => scriptedDrafter(truth, CHANGING, vocab);
  const report = await drive(pair, scripted(), fixedDrafts(15), d, "scripted");
  assert(report.accepted > 0 && report.accepted < report.drafted && report.serial > 0);
  await drive(pair, scripted(), changing([4, 0, 15, 1]), d, "scripted, changing");
  const none = await drive(pair, noDrafter(), fixedDrafts(4), d, "none");
  assert.equal(none.rounds, 0);
  await drive(pair, ngramDrafter(), fixedDrafts(7), d, "ngram");
  await drive(pair, ngramDrafter(), changing([2, 0, 9]), d, "ngram, changing");
  if (!pair.rounds.draftHead) return;
  for (const drafts of [1, 3, 8]) {
    const mtp = await drive(pair, mtpDrafter(), fixedDrafts(drafts), d, `mtp ${drafts}`);
    assert.equal(mtp.drafted, mtp.rounds * drafts);
  }
  await drive(pair, mtpDrafter(), changing([2, 0, 0, 5, 1, 15]), d, "mtp, changing");
  const turns = [0, 0, 0, 1, 0, 0, 1, 1, 2, 0, 0, 2];
  const drafters = [mtpDrafter(), scripted(), ngramDrafter()];
  const both = await drive(pair, drafters, changing([3, 3, 0, 4, 0, 2], turns), d, "in turn");
  assert.equal(both.drafter, "mtp+scripted+ngram");
}

const RUNS: readonly {
  name: string;
  kind: DeviceKind;
  actInt8: boolean;
  fused?: boolean;
  draftHead: boolean;
  tokens: number;
}[] = [
  ...[false, true].flatMap((actInt8) => [
    { name: "tiny", kind: "cpu", actInt8, draftHead: true, tokens: 90 } as const,
    { name: "dense head", kind: "cpu", actInt8, draftHead: true, tokens: 90 } as const,
    { name: "moe head", kind: "cpu", actInt8, draftHead: true, tokens: 90 } as const,
  ]),
  { name: "tiny", kind: "cpu", actInt8: false, fused: true, draftHead: true, tokens: 90 },
  { name: "moe head", kind: "cpu", actInt8: false, fused: true, draftHead: true, tokens: 90 },
  { name: "dense head", kind: "emu", actInt8: false, draftHead: true, tokens: 10 },
  { name: "moe head", kind: "emu", actInt8: false, draftHead: true, tokens: 10 },
];

for (const { name, kind, tokens, ...options } of RUNS) {
  const { actInt8, fused = defaultPlan(kind).fused } = options;
  const label = `${kind}, ${name}, actInt8=${actInt8}, fused=${fused}`;
  Deno.test(`drafters equal serial decode: ${label}`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const path = name === "moe head" ? await withRandomHead(MOE, folder) : MODELS[name];
      const drive = { tokens, from: 24, perCall: 6 };
      await withPair(path, { kind, ...options }, (pair) => everyDrafter(pair, drive));
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
