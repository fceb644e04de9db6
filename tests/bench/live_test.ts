/** The engine that is measured, over the built-in model: it always goes back to the very same state. */
import assert from "node:assert/strict";
import { compareForms } from "../../bench/form_check.ts";
import { runForms } from "../../bench/forms.ts";
import { LiveEngine } from "../../bench/live.ts";
import { monotonicClock } from "../../bench/clock.ts";
import type { EngineSettings } from "../../bench/port.ts";
import { Prompt } from "../../bench/prompt.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { type LoadedModel, openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";

const SETTINGS: EngineSettings = { threads: 2, kv: "f16", prefillRows: 512 };

async function withModel(
  run: (model: LoadedModel, prompt: Prompt) => Promise<void>,
  plan = {},
): Promise<void> {
  using device = openDevice({ kind: "cpu" });
  using model = await openModel("tiny", { device, env: {}, plan });
  await run(model, new Prompt({ tokens: "random", seed: 5, vocab: model.vocabUsed }));
}

Deno.test("live: however a decode is cut into calls, its tokens are the same", async () => {
  await withModel(async (model, prompt) => {
    using engine = new LiveEngine(model, SETTINGS, prompt, 512);
    await engine.fill(70);
    const digests = new Set<string>();
    for (const calls of [[64], [32, 32], new Array(64).fill(1), [1, 63]]) {
      await engine.restore();
      for (const n of calls) await engine.decode(n);
      const { tokens, digest } = await engine.produced();
      assert.equal(tokens, 64);
      digests.add(digest);
    }
    assert.equal(digests.size, 1);
    await assert.rejects(engine.decode(5000), /Decoding ended after \d+ of 5000/);
  });
});

Deno.test("live: a prompt gives the same tokens in whatever chunks it is run", async () => {
  await withModel(async (model, prompt) => {
    const digests = new Set<string>();
    for (const prefillRows of [512, 100, 64, 16]) {
      using engine = new LiveEngine(model, { ...SETTINGS, prefillRows }, prompt, 1024);
      await engine.fill(30);
      await engine.restore();
      await engine.prefill(700);
      await engine.decode(15);
      digests.add((await engine.produced()).digest);
    }
    assert.equal(digests.size, 1);
  });
});

Deno.test("live: a state that was kept ahead is the one that filling would give", async () => {
  await withModel(async (model, prompt) => {
    const decoded = async (engine: LiveEngine) => {
      await engine.restore();
      await engine.decode(40);
      return (await engine.produced()).digest;
    };
    using kept = new LiveEngine(model, SETTINGS, prompt, 1024);
    await kept.fill(0);
    await kept.restore();
    await kept.prefill(600);
    kept.keepAhead();
    await kept.decode(15);
    await kept.fill(600);
    using fresh = new LiveEngine(model, SETTINGS, prompt, 1024);
    await fresh.fill(600);
    const want = await decoded(fresh);
    assert.equal(await decoded(kept), want);
    // What ran in between over the same positions spoils it, and then it is filled anew.
    await kept.fill(0);
    await kept.restore();
    await kept.prefill(600);
    kept.keepAhead();
    await kept.restore();
    await kept.decode(200);
    await kept.fill(600);
    assert.equal(await decoded(kept), want);
  });
});

Deno.test("live: forms agree in every plan, and within the plan's own rounding", async () => {
  for (const actInt8 of [true, false]) {
    await withModel(async (model, prompt) => {
      using engine = new LiveEngine(model, SETTINGS, prompt, 512);
      await engine.fill(200);
      const check = await engine.check();
      assert(check.ok, JSON.stringify(check));
      assert.equal(check.roundingNmse !== null, actInt8);
      assert.equal(check.routingMatch! > 0.95, true);
    }, { actInt8 });
  }
});

Deno.test("live: a form that begins from another state is found out", async () => {
  await withModel(async (model, prompt) => {
    using session = new Session(model, { ctx: 256 });
    session.begin({ sampling: GREEDY, stopIds: [], limit: 1 });
    await session.prefill(prompt.slice(0, 64));
    using right = session.snapshot();
    session.reset();
    session.begin({ sampling: GREEDY, stopIds: [], limit: 1 });
    await session.prefill(prompt.slice(1, 65));
    using wrong = session.snapshot();
    const ids = prompt.slice(64, 81);
    for (const spoilt of [null, 0, 1]) {
      let n = 0;
      const forms = await runForms(session, ids, () => {
        session.restore(n++ === spoilt ? wrong : right);
        return Promise.resolve();
      });
      assert.equal(compareForms(forms).ok, spoilt === null);
    }
  });
});

Deno.test("live: costs, experts, memory and the play behind a piece of work", async () => {
  await withModel(async (model, prompt) => {
    using engine = new LiveEngine(model, SETTINGS, prompt, 512);
    await engine.fill(100);
    const routing = (await engine.routing())!;
    const { topK, experts } = model.config;
    assert.equal(routing.distinct(1), topK);
    assert(routing.distinct(200) > topK && routing.distinct(200) <= experts);
    assert(routing.imbalance >= 1);
    const decode = engine.cost({ kind: "decode", gen: 32 }, routing);
    const verify = engine.cost({ kind: "verify", rows: 4 }, routing);
    const prefill = engine.cost({ kind: "prefill", prompt: 400 }, routing);
    assert(decode.weights > verify.weights && verify.weights > prefill.weights);
    assert.equal(
      engine.cost({ kind: "prompt_decode", prompt: 10, gen: 33 }, routing).weights,
      decode.weights,
    );
    const dispatch = await engine.dispatch({ kind: "decode", gen: 32 }, monotonicClock);
    assert.equal(dispatch.rows, 1);
    assert.equal(dispatch.records, dispatch.kernels.reduce((n, k) => n + k.count, 0));
    assert(dispatch.device_ns! > 0 && dispatch.encode_ns > 0);
    assert.match(dispatch.tape_sha256, /^[0-9a-f]{64}$/);
    const { weights, kv, state, scratch, forecast } = engine.memory();
    assert.equal(weights, model.bytes);
    assert(weights + kv + state + scratch <= 1.02 * forecast);
  });
});
