/** The built-in model through the Metal player: the golden tokens, and what a decode step costs in calls of Metal. */
import assert from "node:assert/strict";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { GOLDEN_TOKENS } from "./golden_tokens.ts";
import { fake, LIBRARY, metalTest } from "./rig.ts";

metalTest("the built-in model says the golden tokens", async () => {
  using device = openDevice({ kind: "metal", library: LIBRARY });
  using model = await openModel("tiny", { device, env: {} });
  using session = new Session(model, { kv: "f32", ctx: 512 });
  const names = ["command buffers", "encoders", "residency commits", "made FakeBuffer"];
  for (const { ids, tokens } of GOLDEN_TOKENS) {
    session.reset();
    session.begin({ sampling: GREEDY, stopIds: [], limit: 24 });
    await session.prefill(ids);
    await session.decode(1);
    const before = fake.counts(...names);
    await session.decode(10);
    const made = fake.counts(...names).map((n, i) => n - before[i]);
    await session.decode(12);
    const got = [...session.take()];
    const n = Math.min(got.length, tokens.length);
    assert.ok(n >= 8, "the golden path is long enough to mean something");
    assert.deepEqual(got.slice(0, n), tokens.slice(0, n));
    assert.deepEqual(made, [10, 10, 0, 0]);
  }
});

metalTest("a run that the budget ends stops at the same token as on the emulator", async () => {
  const texts: string[] = [];
  for (const kind of ["emu", "metal"] as const) {
    using device = openDevice({ kind, library: LIBRARY });
    using model = await openModel("tiny", { device, env: {} });
    using session = new Session(model, { ctx: 128 });
    session.begin({ sampling: GREEDY, stopIds: [], limit: 9 });
    await session.prefill(Uint32Array.from(model.tokenizer.encode("The old house")));
    const played = await session.decode(20);
    texts.push(`${played}: ${[...session.take()]}`);
  }
  assert.equal(texts[1], texts[0]);
});
