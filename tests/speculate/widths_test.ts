/**
 * Every width from 1 to 16 rows with every drafter, on every player: rejection at each place and full acceptance,
 * each from one snapshot and against one serial run. Tokens, last logits, states and caches are the same bytes.
 */
import assert from "node:assert/strict";
import { type Drafter, fixedDrafts } from "../../engine/speculate/drafter.ts";
import { mtpDrafter } from "../../engine/speculate/mtp.ts";
import { ngramDrafter } from "../../engine/speculate/ngram.ts";
import { noDrafter } from "../../engine/speculate/none.ts";
import { Rounds } from "../../engine/speculate/rounds.ts";
import type { Session } from "../../engine/session.ts";
import type { Snapshot } from "../../engine/state.ts";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { ROWS_MAX } from "../../kernels/models/forward.ts";
import { KERNEL_KINDS } from "../kernel_kinds.ts";
import {
  draftAt,
  everyRejection,
  lastLogits,
  MODELS,
  type Pair,
  same,
  sameStates,
  somePrompt,
  start,
  withPair,
} from "./lockstep.ts";
import { withRandomHead } from "./random_head.ts";

const MOE = new URL("../fixtures/qwen35-moe-tiny", import.meta.url).pathname;
const ALL = Array.from({ length: ROWS_MAX }, (_, i) => i + 1);
/** Rounds of a drafter at each width. */
const CALLS = 2;
/** As many as the widest of them can make, behind a single token. */
const TOKENS = 1 + CALLS * ROWS_MAX;

/** What serial decode makes behind a prompt: the timeline, and what it leaves at each position. */
interface Truth {
  readonly from: number;
  readonly ids: readonly number[];
  readonly logits: readonly Uint8Array[];
  readonly states: readonly ReadonlyMap<string, Uint8Array>[];
}

async function truthOf(serial: Session, prompt: Uint32Array): Promise<Truth> {
  const ids = [...prompt, ...serial.take()];
  const logits: Uint8Array[] = [], states: ReadonlyMap<string, Uint8Array>[] = [];
  for (let i = 0; i <= TOKENS; i++) {
    logits.push(lastLogits(serial));
    // Caches only grow: the last ones hold all that earlier ones do.
    states.push(serial.readStates(i < TOKENS ? "recurrent" : "all"));
    if (i < TOKENS) await serial.decode(1);
    ids.push(...serial.take());
  }
  return { from: prompt.length, ids, logits, states };
}

function compare(session: Session, truth: Truth, what: string): void {
  const made = session.pos - truth.from;
  assert.equal(session.halted(), "running", what);
  sameStates(session, truth.states[made], what);
  sameStates(session, caches(truth), what);
}

function caches({ states }: Truth): ReadonlyMap<string, Uint8Array> {
  return new Map([...states[TOKENS]].filter(([name]) => name.startsWith("kv.")));
}

async function forced(pair: Pair, truth: Truth, at: Snapshot, widths: readonly number[]) {
  const { rounds, model } = pair, { vocab } = model.config;
  for (const { rows, right } of everyRejection(widths)) {
    const what = `${rows} rows, ${right} right`;
    rounds.restore(at);
    rounds.draft(draftAt(truth.ids, truth.from, { length: rows - 1, right }, vocab));
    await rounds.rounds(1, { rows });
    assert.equal(rounds.pos, truth.from + right + 1, what);
    assert.deepEqual([...rounds.take()], truth.ids.slice(truth.from + 1, rounds.pos + 1), what);
    assert(same(lastLogits(rounds, rows, right + 1), truth.logits[right + 1]), `${what}: logits`);
    compare(rounds, truth, what);
  }
}

/** Some rounds of a drafter that knows `text` too, with so many drafts each: how many drafts were verified. */
async function drafted(
  { rounds }: Pair,
  truth: Truth,
  at: Snapshot,
  drafter: Drafter,
  drafts: number,
  text: readonly number[] = [],
): Promise<number> {
  const what = `${drafter.name}, ${drafts} drafts`;
  rounds.restore(at);
  const before = rounds.counts().drafted;
  const driver = new Rounds(rounds, drafter, fixedDrafts(drafts));
  driver.begin([...text, ...truth.ids.slice(0, truth.from + 1)]);
  // The head's first call makes a single token and its drafts.
  for (let call = drafter.onDevice ? -1 : 0; call < CALLS; call++) {
    const { ids } = await driver.next(1), end = rounds.pos + 1;
    assert(ids.length > 0, what);
    assert.deepEqual([...ids], truth.ids.slice(end - ids.length, end), what);
    compare(rounds, truth, what);
  }
  return rounds.counts().drafted - before;
}

async function everyWidth(pair: Pair, widths: readonly number[], from: number): Promise<void> {
  const { serial, rounds, model } = pair, prompt = somePrompt(model, from);
  await start(pair, prompt);
  const truth = await truthOf(serial, prompt);
  assert.deepEqual([...rounds.take()], truth.ids.slice(from, from + 1));
  using at = rounds.snapshot();
  await forced(pair, truth, at, widths);
  for (const rows of widths.filter((n) => n > 1)) {
    // What comes stood in a text before, but for every fifth token.
    const text = truth.ids.slice(from - 1)
      .map((id, i) => i % 5 === 4 ? (id + 1) % model.config.vocab : id);
    const looked = await drafted(pair, truth, at, ngramDrafter(), rows - 1, text);
    assert(looked >= rows - 1, "prompt lookup found nothing");
    if (!rounds.draftHead) continue;
    const headed = await drafted(pair, truth, at, mtpDrafter(), rows - 1);
    assert.equal(headed, CALLS * (rows - 1));
  }
  assert.equal(await drafted(pair, truth, at, noDrafter(), 4), 0);
}

interface Run {
  readonly kind: DeviceKind;
  readonly name: string;
  readonly widths: readonly number[];
  readonly from: number;
}

const FIXTURES = ["dense head", "moe head"];
const RUNS: readonly Run[] = [
  ...[...FIXTURES, "tiny"].map((name) => ({ kind: "cpu" as const, name, widths: ALL, from: 250 })),
  // The emulator is slow; from 250 on the rounds would reach into a second block of keys.
  ...KERNEL_KINDS.flatMap((kind) => [
    ...FIXTURES.map((name) => ({ kind, name, widths: ALL, from: kind === "emu" ? 16 : 250 })),
    { kind, name: "tiny", widths: kind === "emu" ? [3, 16] : ALL, from: kind === "emu" ? 16 : 250 },
  ]),
];

for (const { kind, name, widths, from } of RUNS) {
  const label = `${kind}, ${name}, widths ${widths[0]} to ${widths.at(-1)}`;
  Deno.test(`every width with every drafter equals serial decode: ${label}`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const path = name === "moe head" ? await withRandomHead(MOE, folder) : MODELS[name];
      const session = { ctx: 320 };
      await withPair(
        path,
        { kind, draftHead: true, session },
        (pair) => everyWidth(pair, widths, from),
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
