/** The MTP head against what transformers computed: hidden rows, logits, drafts, agreement with the trunk. */
import assert from "node:assert/strict";
import { defaultPlan, openDevice, openModel } from "../../engine/model.ts";
import { Session, type SessionOptions } from "../../engine/session.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import {
  argmax,
  assertClose,
  floats,
  type GoldenTensor,
  ids,
  readGolden,
} from "../model/golden.ts";
import { ENDLESS } from "./lockstep.ts";

const ROOT = new URL("../fixtures/", import.meta.url).pathname;
const BOUND = { max: 1e-3, nmse: 1e-7 };
const tiny = await readGolden(`${ROOT}tiny/golden.safetensors`);
const record = JSON.parse(await Deno.readTextFile(`${ROOT}tiny/golden.json`));

async function withHead(
  name: string,
  options: SessionOptions,
  run: (session: Session) => Promise<void>,
  kind: DeviceKind = "cpu",
  fused = defaultPlan(kind).fused,
): Promise<void> {
  using device = openDevice({ kind });
  using model = await openModel(name, {
    device,
    env: {},
    plan: { actInt8: false, fused },
    draftHead: true,
  });
  using session = new Session(model, { kv: "f32", draftHead: true, ...options });
  await run(session);
}

/** The head's normed rows and logits over all of `prompt`, fed in pieces of `rows`. */
async function headRows(session: Session, prompt: Uint32Array<ArrayBuffer>, rows: number) {
  const { hidden, vocab } = session.model.config, n = prompt.length;
  const normed = new Float32Array(n * hidden), logits = new Float32Array(n * vocab);
  const trunk = new Float32Array(n * vocab);
  session.reset();
  for (let at = 0; at < n; at += rows) {
    const piece = prompt.slice(at, at + rows), next = prompt[at + piece.length];
    const options = { tapHead: true, ...(next === undefined ? {} : { next }) } as const;
    trunk.set(await session.forward(piece, "logits", options), at * vocab);
    normed.set(session.readState("mtp.normed", piece.length * hidden), at * hidden);
    logits.set(session.readState("mtp.logits", piece.length * vocab), at * vocab);
  }
  return { normed, logits, trunk };
}

async function checkFixture(
  session: Session,
  golden: Map<string, GoldenTensor>,
  prompt: Uint32Array<ArrayBuffer>,
) {
  const tokens = ids(golden, "mtp.long.input_tokens"), n = prompt.length;
  const whole = Uint32Array.from([prompt[0], ...tokens]);
  const { hidden, vocab } = session.model.config;
  for (const rows of [n + 1, 16, 5]) {
    const got = await headRows(session, whole, rows);
    // The row behind the last golden one has no token behind it.
    const what = `pieces of ${rows}`;
    assertClose(got.normed.subarray(0, n * hidden), floats(golden, "mtp.long.hidden"), BOUND, what);
    const last = floats(golden, "mtp.long.logits");
    const logits = got.logits.subarray(n * vocab - last.length, n * vocab);
    assertClose(logits, last, BOUND, what);
  }
  for (const prefillRows of [512, 64, 7]) {
    using again = new Session(session.model, { kv: "f32", ctx: 128, draftHead: true, prefillRows });
    again.begin({ sampling: GREEDY, stopIds: [], limit: ENDLESS });
    await again.prefill(prompt, undefined, 3);
    assert.deepEqual([...again.take()], [tokens[n - 1]]);
    assert.deepEqual([...again.drafts()], [...ids(golden, "mtp.long.drafts")]);
  }
}

for (const [kind, fused] of [["cpu", false], ["cpu", true], ["emu", true]] as const) {
  const label = `dense fixture on ${kind}, fused=${fused}`;
  Deno.test(`MTP head, ${label}: hidden rows, logits and chained drafts`, async () => {
    const folder = `${ROOT}qwen35-dense-tiny`;
    const golden = await readGolden(`${folder}/golden_mtp.safetensors`);
    const prompt = ids(await readGolden(`${folder}/golden.safetensors`), "long.input_ids");
    await withHead(folder, { ctx: 128 }, (s) => checkFixture(s, golden, prompt), kind, fused);
  });
}

Deno.test("MTP head, built-in model: drafts behind the golden prompts", async () => {
  await withHead("tiny", { ctx: 256 }, async (session) => {
    const { vocab } = session.model.config;
    for (const [p, { text, q4 }] of record.prompts.entries()) {
      const prompt = Uint32Array.from(session.model.tokenizer.encode(text)), k = prompt.length;
      const all = Uint32Array.from([...prompt, ...q4.greedy_ids]);
      const { logits } = await headRows(session, all, all.length);
      const row = (t: number) => logits.subarray(t * vocab, (t + 1) * vocab);
      if (p === 0) {
        const want = floats(tiny, "prompt0.mtp_logits_q4");
        assertClose(row(k - 1), want, { max: 5e-4, nmse: 1e-8 }, "logits");
      }
      const drafts = Array.from({ length: q4.mtp_drafts.length }, (_, j) => argmax(row(k - 1 + j)));
      assert.deepEqual(drafts, q4.mtp_drafts, text);
      await checkRounds(session, prompt, q4);
    }
  });
});

interface GoldenRun {
  readonly greedy_ids: readonly number[];
  readonly gaps: readonly number[];
  readonly mtp_drafts: readonly number[];
}

/** The drafts that the device itself leaves between rounds of one draft. */
async function checkRounds(session: Session, prompt: Uint32Array<ArrayBuffer>, golden: GoldenRun) {
  session.reset();
  session.begin({ sampling: GREEDY, stopIds: [], limit: ENDLESS });
  await session.prefill(prompt, undefined, 1);
  const sure = golden.gaps.findIndex((g) => g < 1e-3);
  const end = sure < 0 ? golden.greedy_ids.length : sure;
  for (let accepted = 0;;) {
    const made = session.pos - prompt.length;
    if (made + 2 >= end) return;
    assert.deepEqual([...session.drafts()], [golden.mtp_drafts[made]], `draft ${made}`);
    await session.rounds(1, { rows: 2, drafts: 1 });
    const right = golden.mtp_drafts[made] === golden.greedy_ids[made + 1] ? 1 : 0;
    assert.equal(session.counts().accepted, accepted += right, `round at ${made}`);
  }
}

Deno.test("MTP head, built-in model: agreement with the trunk on the held-out text", async () => {
  await withHead("tiny", { ctx: 1024 }, async (session) => {
    const { window, windows, q4 } = record.heldout, { vocab } = session.model.config;
    const text = ids(tiny, "heldout.ids");
    let agree = 0, all = 0;
    for (let w = 0; w < windows; w++) {
      const part = text.slice(w * window, (w + 1) * window);
      const { logits, trunk } = await headRows(session, part, window);
      for (let t = 0; t + 2 < window; t++) {
        const draft = argmax(logits.subarray(t * vocab, (t + 1) * vocab));
        if (draft === argmax(trunk.subarray((t + 1) * vocab, (t + 2) * vocab))) agree++;
        all++;
      }
    }
    const share = agree / all;
    const want = q4.mtp_agrees_with_trunk_argmax;
    assert(Math.abs(share - want) <= 0.002, `${share} of drafts agree, golden ${want}`);
    assert(Math.abs(share - 0.64) <= 0.002, `${share} of drafts agree`);
  });
});
