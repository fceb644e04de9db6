/** Generation with speculation: the text, ids and reason to stop of plain generation, whatever drafts. */
import assert from "node:assert/strict";
import type { GenerateOptions, GenerateResult, Speculation } from "../../engine/api_types.ts";
import { UserError } from "../../engine/errors.ts";
import { generate } from "../../engine/generate.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { type LoadedModel, openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { noDrafter } from "../../engine/speculate/none.ts";
import { MODELS } from "./lockstep.ts";

const TEXT = "The old house stood on the hill, and the old house was";
const WAYS: readonly Speculation[] = [
  { drafter: "ngram" },
  { drafter: "ngram", drafts: 15 },
  { drafter: "ngram", drafts: "auto" },
  { drafter: "mtp" },
  { drafter: "mtp", drafts: 1 },
  { drafter: "mtp", drafts: "auto" },
  { drafter: "auto" },
  { drafter: "off" },
  { drafter: noDrafter(), drafts: 3 },
];

async function run(session: Session, options: GenerateOptions) {
  session.reset();
  let text = "";
  const pieces = generate(session, options);
  for (;;) {
    const step = await pieces.next();
    if (step.done) return { text, result: step.value };
    text += step.value.text;
  }
}

async function withTiny(actInt8: boolean, body: (model: LoadedModel) => Promise<void>) {
  using device = openDevice({ kind: "cpu" });
  using model = await openModel("tiny", { device, env: {}, draftHead: true, plan: { actInt8 } });
  await body(model);
}

function outcome({ text, result }: { text: string; result: GenerateResult }) {
  const { ids, stopReason, promptTokens, decodeIntervals } = result;
  return { text, ids: [...ids], whole: result.text, stopReason, promptTokens, decodeIntervals };
}

const SAMPLINGS = [GREEDY, { ...GREEDY, temperature: 0.9, topK: 50, topP: 0.95, seed: 77 }];

for (const actInt8 of [false, true]) {
  Deno.test(`every speculation generates what plain decoding does, actInt8=${actInt8}`, async () => {
    await withTiny(actInt8, async (model) => {
      using plain = new Session(model, { ctx: 256 });
      using session = new Session(model, { ctx: 256, draftHead: true });
      const prompt = model.tokenizer.encode(TEXT);
      const base = { prompt, maxTokens: 80, stopIds: [], stopStrings: [] };
      for (const sampling of SAMPLINGS) {
        const want = outcome(await run(plain, { ...base, sampling }));
        assert.equal(want.stopReason, "max_tokens");
        for (const speculation of WAYS) {
          const got = await run(session, { ...base, sampling, speculation });
          const what = JSON.stringify([sampling.temperature, speculation]);
          assert.deepEqual(outcome(got), want, what);
          const { rounds } = got.result;
          if (speculation.drafter === "off") assert.equal(rounds, undefined);
          else {
            // Of the last round the budget may have cut off the token behind an accepted draft.
            const made = rounds!.serial + rounds!.rounds + rounds!.accepted;
            assert(made === 79 || made === 80, `${what}: ${made}`);
          }
        }
      }
    });
  });
}

Deno.test("stop tokens, stop strings, budgets and context end speculation as they end decoding", async () => {
  await withTiny(true, async (model) => {
    const prompt = model.tokenizer.encode(TEXT);
    const ends: readonly (Partial<GenerateOptions> & { ctx?: number })[] = [
      { maxTokens: 1 },
      { maxTokens: 2 },
      { maxTokens: 7 },
      { stopStrings: [" the "] },
      { stopIds: [...model.tokenizer.encode(" of")] },
      { ctx: prompt.length + 9 },
      { ctx: prompt.length + 1 },
    ];
    for (const { ctx = 200, ...end } of ends) {
      using plain = new Session(model, { ctx });
      using session = new Session(model, { ctx, draftHead: true });
      const options = {
        prompt,
        maxTokens: 120,
        stopIds: [],
        stopStrings: [],
        sampling: GREEDY,
        ...end,
      };
      const want = outcome(await run(plain, options));
      for (const speculation of WAYS) {
        const got = outcome(await run(session, { ...options, speculation }));
        // Where a stop string ends the text, how many tokens were made behind it does not matter.
        const same = { ...got, decodeIntervals: want.decodeIntervals };
        assert.deepEqual(same, want, JSON.stringify([end, ctx, speculation]));
      }
    }
  });
});

Deno.test("interrupted speculation says so", async () => {
  await withTiny(true, async (model) => {
    using session = new Session(model, { ctx: 256, draftHead: true });
    const abort = new AbortController();
    const pieces = generate(session, {
      prompt: model.tokenizer.encode(TEXT),
      maxTokens: 200,
      stopIds: [],
      stopStrings: [],
      sampling: GREEDY,
      speculation: { drafter: "mtp" },
      signal: abort.signal,
    });
    for (;;) {
      const step = await pieces.next();
      if (step.done) {
        assert.equal(step.value.stopReason, "interrupted");
        assert(step.value.ids.length >= 1 && step.value.ids.length < 200);
        return;
      }
      abort.abort();
    }
  });
});

Deno.test("what cannot draft is refused in one line", async () => {
  using device = openDevice({ kind: "cpu" });
  const refused = async (path: string) => {
    const opening = () => openModel(path, { device, env: {}, draftHead: true });
    await assert.rejects(opening, (e) => {
      assert(e instanceof UserError);
      assert.match(
        e.message,
        /^Checkpoint \S+ has no MTP draft head, though .*--spec ngram or off\.$/,
      );
      return true;
    });
  };
  await refused(MODELS.moe);
  await refused(MODELS["dense mlx4"]);
  using model = await openModel(MODELS.moe, { device, env: {}, draftHead: "optional" });
  assert.equal(model.hasDraftHead, false);
  assert.throws(() => new Session(model, { ctx: 64, draftHead: true }), UserError);
});

Deno.test("more drafts than a round takes, and a head that is not fed, are refused", async () => {
  await withTiny(true, async (model) => {
    using session = new Session(model, { ctx: 64 });
    const asked = (speculation: Speculation) =>
      run(session, {
        prompt: Uint32Array.of(1, 2, 3),
        maxTokens: 4,
        sampling: GREEDY,
        stopIds: [],
        stopStrings: [],
        speculation,
      });
    await assert.rejects(() => asked({ drafter: "ngram", drafts: 16 }), /give 1 to 15/);
    await assert.rejects(() => asked({ drafter: "mtp" }), /draftHead/);
  });
});

Deno.test("speculation on the null player comes to an end", async () => {
  using device = openDevice({ kind: "null" });
  using model = await openModel("tiny", { device, env: {}, draftHead: true });
  for (const speculation of WAYS) {
    using session = new Session(model, { ctx: 64, draftHead: true });
    const { result } = await run(session, {
      prompt: Uint32Array.of(1, 2, 3),
      maxTokens: 20,
      sampling: GREEDY,
      stopIds: [],
      stopStrings: [],
      speculation,
    });
    assert.equal(result.stopReason, "context_full", JSON.stringify(speculation));
  }
});
