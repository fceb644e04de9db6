/** The built-in model on the CPU player and the emulator against golden values of its own 4-bit weights. */
import assert from "node:assert/strict";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { perplexity } from "../../engine/perplexity.ts";
import { Session } from "../../engine/session.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { KERNEL_KINDS } from "../kernel_kinds.ts";
import { assertClose, floats, ids, readGolden } from "./golden.ts";

const FIXTURES = new URL("../fixtures/tiny/", import.meta.url).pathname;
const golden = await readGolden(FIXTURES + "golden.safetensors");
const record = JSON.parse(await Deno.readTextFile(FIXTURES + "golden.json"));

async function withTiny(
  plan: Readonly<Record<string, boolean>>,
  run: (open: (options: ConstructorParameters<typeof Session>[1]) => Session) => Promise<void>,
  kind: DeviceKind = "cpu",
): Promise<void> {
  using device = openDevice({ kind });
  using model = await openModel("tiny", { device, env: {}, plan });
  const sessions: Session[] = [];
  try {
    await run((options) => {
      sessions.push(new Session(model, options));
      return sessions.at(-1)!;
    });
  } finally {
    for (const s of sessions) s[Symbol.dispose]();
  }
}

const EXACT = { actInt8: false };

for (const fused of [false, true]) {
  Deno.test(`tiny: tokens and logits agree with the golden values, fused=${fused}`, async () => {
    await withTiny({ ...EXACT, fused }, async (open) => {
      const session = open({ kv: "f32", ctx: 512 });
      for (let p = 0; p < record.prompts.length; p++) {
        const prompt = ids(golden, `prompt${p}.ids`);
        assert.deepEqual([...session.model.tokenizer.encode(record.prompts[p].text)], [...prompt]);
        session.reset();
        const logits = await session.forward(prompt, "logits");
        const last = logits.subarray((prompt.length - 1) * session.model.config.vocab);
        assertClose(
          last,
          floats(golden, `prompt${p}.logits_q4`),
          { max: 2e-4, nmse: 1e-9 },
          "logits",
        );
        await checkGreedy(session, prompt, record.prompts[p].q4);
      }
    });
  });
}

for (const kind of KERNEL_KINDS) {
  Deno.test(`tiny: golden tokens and logits on ${kind}`, async () => {
    await withTiny(EXACT, async (open) => {
      const session = open({ kv: "f32", ctx: 128 });
      const prompt = ids(golden, "prompt0.ids"), { vocab } = session.model.config;
      const logits = await session.forward(prompt, "logits");
      const last = logits.subarray((prompt.length - 1) * vocab);
      assertClose(last, floats(golden, "prompt0.logits_q4"), { max: 2e-4, nmse: 1e-9 }, "logits");
      await checkGreedy(session, prompt, record.prompts[0].q4, kind === "emu" ? 16 : 64);
    }, kind);
  });
}

async function checkGreedy(
  session: Session,
  prompt: Uint32Array<ArrayBuffer>,
  want: { greedy_ids: number[]; gaps: number[] },
  limit = 64,
): Promise<void> {
  session.reset();
  session.begin({ sampling: GREEDY, stopIds: [], limit });
  await session.prefill(prompt);
  await session.decode(limit - 1);
  const got = [...session.take()];
  const sure = want.gaps.findIndex((g) => g < 1e-3);
  const n = Math.min(limit, sure < 0 ? want.greedy_ids.length : sure);
  assert(n >= 8, "the golden path is long enough to mean something");
  assert.deepEqual(got.slice(0, n), want.greedy_ids.slice(0, n));
}

for (const fused of [false, true]) {
  Deno.test(`tiny: hidden states of every layer agree with the golden values, fused=${fused}`, async () => {
    await withTiny({ ...EXACT, fused }, async (open) => {
      const session = open({ kv: "f32", ctx: 64 });
      const prompt = ids(golden, "prompt0.ids");
      const { layers, hidden } = session.model.config;
      for (let layer = 0; layer <= layers; layer++) {
        session.reset();
        await session.forward(prompt, "none", { tapLayers: layer });
        // The golden list ends with the normed output of the last layer, as transformers gives it.
        const name = layer === layers ? "normed" : "x";
        const got = session.readState(name, prompt.length * hidden);
        const want = floats(golden, `prompt0.hidden${layer}_q4`);
        assertClose(got, want, { max: 2e-4, nmse: 1e-9 }, `hidden ${layer}`);
      }
    });
  });
}

Deno.test("tiny: perplexity of the held-out text, exact and with 8-bit activations", async () => {
  const text = await Deno.readTextFile(FIXTURES + "heldout.txt");
  const measure = async (plan: { actInt8: boolean }) => {
    let out = 0;
    await withTiny(plan, async (open) => {
      const session = open({ kv: "f32", ctx: 1024 });
      const all = session.model.tokenizer.encode(text);
      const { window, windows } = record.heldout;
      const cut = all.subarray(0, window * windows);
      assert.deepEqual([...cut], [...ids(golden, "heldout.ids")]);
      const result = await perplexity(session, cut, { window });
      assert.equal(result.predictions, record.heldout.q4.predictions);
      out = result.perplexity;
    });
    return out;
  };
  const exact = await measure(EXACT);
  const want = record.heldout.q4.perplexity;
  assert(Math.abs(exact - want) < 0.01, `perplexity ${exact}, golden ${want}`);
  const act8 = await measure({ actInt8: true });
  const change = Math.abs(act8 / exact - 1);
  assert(change > 0 && change < 0.005, `8-bit activations change perplexity by ${change * 100} %`);
});
