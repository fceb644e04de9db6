/** What a user can ask for that cannot be done, on real sessions: a line, and never a wrong answer. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { resolveModel } from "../../engine/aliases.ts";
import { generate } from "../../engine/generate.ts";
import { GREEDY, type Sampling } from "../../engine/generation_config.ts";
import { inspectCheckpoint } from "../../engine/inspect.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { perplexity } from "../../engine/perplexity.ts";
import { Session } from "../../engine/session.ts";
import { refusal } from "./fake_checkpoint.ts";

interface Setting {
  readonly kind?: DeviceKind;
  readonly ctx?: number;
  readonly prefillRows?: number;
}

async function withTiny(
  { kind = "cpu", ...options }: Setting,
  run: (session: Session) => Promise<void>,
): Promise<void> {
  using device = openDevice({ kind, threads: 1 });
  using model = await openModel("tiny", { device, env: {} });
  using session = new Session(model, { ctx: 32, ...options });
  await run(session);
}

interface Asked {
  readonly maxTokens?: number;
  readonly sampling?: Sampling;
  readonly signal?: AbortSignal;
}

async function result(session: Session, prompt: ArrayLike<number>, asked: Asked) {
  const run = generate(session, {
    prompt: Uint32Array.from(prompt),
    maxTokens: 8,
    sampling: GREEDY,
    stopIds: [],
    stopStrings: [],
    ...asked,
  });
  for (;;) {
    const step = await run.next();
    if (step.done) return step.value;
  }
}

Deno.test("misuse: a player that samples nothing ends at the end of the context", async () => {
  await withTiny({ kind: "null" }, async (session) => {
    const { ids, stopReason } = await result(session, [1, 2], { maxTokens: 100 });
    assert.deepEqual([ids.length, stopReason], [0, "context_full"]);
    const text = Uint32Array.of(1, 2, 3);
    const { message } = await refusal(() => perplexity(session, text, { window: 8 }));
    assert.match(message, /^The null device computes nothing/);
  });
});

Deno.test("misuse: counts beyond 32 bits mean much, not what is left of them", async () => {
  await withTiny({}, async (session) => {
    const much = 2 ** 32 + 1;
    const all: Sampling = { ...GREEDY, temperature: 1, topK: 0, topP: 1, seed: 5 };
    const want = await result(session, [1, 2], { sampling: all });
    session.reset();
    const got = await result(session, [1, 2], { sampling: { ...all, topK: much } });
    assert.deepEqual(got.ids, want.ids);
    session.reset();
    const { stopReason } = await result(session, [1, 2], { maxTokens: much });
    assert.equal(stopReason, "context_full");
  });
});

Deno.test("misuse: an interrupted prefill counts the tokens that were played", async () => {
  await withTiny({ prefillRows: 4 }, async (session) => {
    const signal = AbortSignal.abort();
    const { promptTokens, stopReason } = await result(session, Array(12).fill(7), { signal });
    assert.deepEqual([promptTokens, stopReason], [0, "interrupted"]);
  });
});

Deno.test("misuse: a prompt that cannot fit, and ids of another model", async () => {
  await withTiny({}, async (session) => {
    const long = (n: number) => refusal(() => result(session, Array(n).fill(7), {}));
    assert.match(
      (await long(33)).message,
      /Give --ctx at least 34 \(the model's maximum is 8192\)/,
    );
    assert.match((await long(9000)).message, /Give a shorter text: the model's maximum is 8192\.$/);
    const { message } = await refusal(() => result(session, [1, 4096], {}));
    assert.match(message, /^Token 4096 is not one of tiny, which has 4096\. Use the tokenizer/);
  });
});

Deno.test("misuse: broken texts are refused with their folder where they are used, and inspect says so", async () => {
  const { path } = await resolveModel("tiny", {});
  const folder = await Deno.makeTempDir();
  try {
    for await (const { name } of Deno.readDir(path)) {
      await Deno.symlink(join(path, name), join(folder, name));
    }
    using device = openDevice({ kind: "cpu", threads: 1 });
    for (const file of ["tokenizer.json", "generation_config.json"]) {
      await Deno.remove(join(folder, file));
      await Deno.writeTextFile(join(folder, file), "{% for");
      const { message } = await refusal(() => openModel(folder, { device, env: {} }));
      assert.ok(message.startsWith(`In ${folder}: `), message);
      assert.match(message, /Use the files that were published with the tensors\.$/);
      assert.deepEqual((await inspectCheckpoint(folder, {})).refusals, [message]);
      await Deno.remove(join(folder, file));
      await Deno.symlink(join(path, file), join(folder, file));
    }
    await Deno.remove(join(folder, "chat_template.jinja"));
    await Deno.writeTextFile(join(folder, "chat_template.jinja"), "{% for");
    using model = await openModel(folder, { device, env: {} });
    assert.equal(model.tokenizer.decode(model.tokenizer.encode("a b")), "a b");
    const { message } = await refusal(() => model.chatTemplate);
    assert.ok(message.startsWith(`In ${folder}: chat template: `), message);
    const { refusals, warnings } = await inspectCheckpoint(folder, {});
    assert.deepEqual([refusals, warnings], [[], [`no chats: ${message}`]]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
