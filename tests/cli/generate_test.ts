/** `lapwing generate` over an engine that says a fixed text. */
import assert from "node:assert/strict";
import { UserError } from "../../engine/errors.ts";
import { tiny } from "../engine/tiny_files.ts";
import { fakeEngine, type Script } from "./fake_engine.ts";
import { run, type Setup } from "./fake_terminal.ts";

async function generate(argv: readonly string[], setup: Setup = {}, script: Script = {}) {
  const engine = fakeEngine(script);
  const ran = await run(["generate", ...argv], { engine, ...setup });
  assert.equal(engine.calls.alive, 0, "something was not disposed");
  return { ...ran, calls: engine.calls };
}

Deno.test("text on standard output, one line of timing on standard error", async () => {
  const { code, out, err, calls } = await generate(["It was"]);
  assert.equal(code, 0);
  assert.equal(out, " the sun was shining.\n");
  assert.match(err, /^prompt 2 tokens at 1000 tok\/s; first token after 3\.0 ms; [^\n]+\n$/);
  assert.match(err, / decode 100\.0 tok\/s; stop token\n$/);
  assert.deepEqual([...calls.generate!.prompt], [...tiny.encode("It was")]);
  assert.deepEqual(calls.generate!.stopIds, tiny.stopIds);
});

Deno.test("a single token has no decode rate", async () => {
  const { err } = await generate(["It was", "-n", "1"]);
  assert.match(err, /1 tokens? made, decode no rate; max tokens\n$/);
});

Deno.test("flags override the model's sampling one by one", async () => {
  const model = (await generate(["x"])).calls;
  assert.deepEqual(model.generate!.sampling, tiny.sampling);
  assert.deepEqual(model.device, { kind: "cpu", threads: undefined });
  assert.deepEqual(model.model!.plan, {});
  const argv = [
    ["x", "--temperature", "0", "--top-k", "7", "--min-p", ".1", "--repeat-penalty", "1.2"],
    ["--seed", "9", "--stop", "User:", "--stop", "\n\n", "-n", "5", "--kv", "q8", "--ctx", "64"],
    ["--plan", "actInt8=on", "--plan", "fuseNormQkv=off", "--quantize", "8", "--threads", "3"],
    ["--device", "emu", "-m", "some/where"],
  ].flat();
  const { calls } = await generate(argv);
  assert.deepEqual(calls.generate!.sampling, {
    ...tiny.sampling,
    temperature: 0,
    topK: 7,
    minP: 0.1,
    repeatPenalty: 1.2,
    seed: 9,
  });
  assert.deepEqual(calls.generate!.stopStrings, ["User:", "\n\n"]);
  assert.equal(calls.generate!.maxTokens, 5);
  assert.deepEqual(calls.session, { ctx: 64, room: 6, kv: "q8" });
  assert.deepEqual(calls.device, { kind: "emu", threads: 3 });
  const { name, plan, quantize } = calls.model!;
  assert.deepEqual({ name, plan, quantize }, {
    name: "some/where",
    plan: { actInt8: true, fuseNormQkv: false },
    quantize: 8,
  });
});

Deno.test("--json is JSON and nothing else, with rates over intervals", async () => {
  const { out } = await generate(["It was", "--json", "-n", "3"]);
  const report = JSON.parse(out);
  assert.equal(report.model, "tiny");
  assert.equal(report.stop_reason, "max_tokens");
  assert.equal(report.ids.length, 3);
  assert.equal(report.text, tiny.decode(report.ids));
  assert.equal(report.decode_intervals, 2);
  assert.equal(report.decode_tok_per_s, 100);
  assert.equal(report.prefill_ns, 2_000_000);
  assert.deepEqual(report.plan, { fuseNormQkv: true, actInt8: false });
  assert.equal(report.sampling.top_k, 40);
  const one = JSON.parse((await generate(["x", "--json", "-n", "1"])).out);
  assert.equal(one.decode_tok_per_s, null);
});

Deno.test("the least 32-bit floats and zeros of any spelling are taken as they are", async () => {
  const argv = [
    "x",
    "--temperature",
    "0.0e-400",
    "--min-p",
    "1.2e-38",
    "--repeat-penalty",
    "1e-30",
  ];
  const { sampling } = (await generate(argv)).calls.generate!;
  assert.deepEqual([sampling.temperature, sampling.minP], [0, 1.2e-38]);
  assert.equal(sampling.repeatPenalty, 1e-30);
});

Deno.test("notes: one line each on standard error, each once, and JSON stays JSON", async () => {
  const notes = ["the model is odd", "the model is odd", "so is its name"];
  const argv = ["x", "--json", "--threads", "1024"];
  const { code, out, err } = await generate(argv, {}, { notes });
  assert.equal(code, 0);
  assert.equal(JSON.parse(out).model, "tiny");
  const told = err.split("\n").filter((line) => line.startsWith("note: "));
  assert.match(
    told[0],
    /^note: 1024 threads share the \d+ processors? that this process may use: /,
  );
  assert.deepEqual(told.slice(1), ["note: the model is odd", "note: so is its name"]);
  assert.doesNotMatch((await generate(["x", "--threads", "1"])).err, /note/);
  const bar = await generate(["x"], { tty: { err: true } }, { notes: ["odd"] });
  // deno-lint-ignore no-control-regex
  assert.match(bar.err, /50% reading\r\x1b\[K\S*note:\S* odd\n/);
});

Deno.test("--no-stream prints the same text", async () => {
  const { out } = await generate(["It was", "--no-stream"]);
  assert.equal(out, " the sun was shining.\n");
});

Deno.test("the prompt comes from an argument, a file or standard input", async () => {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(file, "from a file\n\n");
    const prompts: [string[], Setup, string][] = [
      [["as given\n"], { stdin: "unread" }, "as given\n"],
      [["--file", file], { tty: { in: true } }, "from a file\n"],
      [[], { stdin: "\ufefffrom stdin\r\n" }, "from stdin"],
      [["-"], { stdin: "asked for", tty: { in: true } }, "asked for"],
      [["--file", "-"], { stdin: "also" }, "also"],
    ];
    for (const [argv, setup, text] of prompts) {
      const { code, err, calls } = await generate(argv, setup);
      assert.equal(code, 0, err);
      assert.equal(tiny.decode(calls.generate!.prompt), text);
    }
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("prompts that cannot be read are refused in one line", async () => {
  const cases: [string[], Setup, RegExp][] = [
    [[], { tty: { in: true } }, /^error: No prompt: give it as an argument, with --file/],
    [["a", "--file", "b"], {}, /^error: Give the prompt either/],
    [["--file", "/no/such/file"], {}, /^error: Cannot read \/no\/such\/file: no such file\n$/],
    [["--file", "/tmp"], {}, /^error: Cannot read \/tmp: it is a folder\n$/],
    [[], { stdin: Uint8Array.of(0x61, 0xff) }, /^error: standard input is not UTF-8 text\n$/],
    [[], { stdin: "\n" }, /^error: The prompt is empty\n$/],
    [[""], {}, /^error: The prompt is empty\n$/],
  ];
  for (const [argv, setup, expected] of cases) {
    const { code, out, err } = await generate(argv, setup);
    assert.equal(code, 2);
    assert.equal(out, "");
    assert.match(err, expected);
  }
});

Deno.test("--chat renders the model's template; --system implies it", async () => {
  const prompt = async (argv: string[]) =>
    tiny.decode((await generate(argv)).calls.generate!.prompt, { special: true });
  const user = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  assert.equal(await prompt(["hi"]), "hi");
  assert.equal(await prompt(["hi", "--chat"]), user);
  assert.equal(
    await prompt(["hi", "--system", "Be brief."]),
    `<|im_start|>system\nBe brief.<|im_end|>\n${user}`,
  );
  assert.equal(await prompt(["hi", "--no-think"]), user);
  const refused = await generate(["hi", "--system", "x", "--no-chat"]);
  assert.equal(refused.code, 2);
  const none = await generate(["hi", "--chat"], {}, { chat: false });
  assert.match(none.err, /^error: tiny has no chat template: use --no-chat\n$/);
});

Deno.test("what the engine refuses or breaks on becomes a line and a code", async () => {
  const refused = await generate(["x"], {}, {
    failure: new UserError("No such model: x", { details: ["looked in /a", "looked in /b"] }),
  });
  assert.equal(refused.code, 2);
  assert.equal(refused.err, "error: No such model: x\n  looked in /a\n  looked in /b\n");
  const short = new UserError("Does not fit: 1 missing (a.weight); use b", {
    details: ["missing: a.weight"],
  });
  const told = await generate(["x"], {}, { failure: short });
  assert.equal(told.err, "error: Does not fit: 1 missing (a.weight); use b\n");
  const bug = await generate(["x"], {}, { failure: new TypeError("undefined\nis not") });
  assert.equal(bug.code, 70);
  assert.match(bug.err, /^error: undefined \(unexpected: please report it; [^\n]+\)\n$/);
  const debugged = [
    await generate(["x", "--debug"], {}, { failure: new TypeError("oh") }),
    await generate(["x"], { env: { LAPWING_DEBUG: "1" } }, { failure: new TypeError("oh") }),
  ];
  for (const d of debugged) assert.match(d.err, /\nTypeError: oh\n\s+at /);
});

Deno.test("colour, progress and shown control characters only on a terminal", async () => {
  const text = "a\x1b[2Jb";
  const plain = await generate(["x"], {}, { text });
  assert.equal(plain.out, text + "\n");
  // deno-lint-ignore no-control-regex
  assert.doesNotMatch(plain.err, /[\x1b\r]/);
  const tty = { out: true, err: true };
  const shown = await generate(["x"], { tty }, { text });
  assert.equal(shown.out, "a␛[2Jb\n");
  assert.match(shown.err, /50% reading/);
  // deno-lint-ignore no-control-regex
  assert.match(shown.err, /\x1b\[2mprompt/);
  const noColor = await generate(["x"], { tty, env: { NO_COLOR: "1" } }, { text });
  // deno-lint-ignore no-control-regex
  assert.doesNotMatch(noColor.err, /\x1b\[2m/);
});

Deno.test("an interrupt ends with what was made so far and code 130", async () => {
  const { code, out, err } = await generate(["x"], { signal: AbortSignal.abort() });
  assert.equal(code, 130);
  assert.equal(out, "\n");
  assert.match(err, /interrupted\n$/);
});

Deno.test("Ctrl-C in the real process: text so far, a line of timing, code 130", async () => {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", new URL("slow_main.ts", import.meta.url).pathname, "generate", "Once"],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const decoder = new TextDecoder();
  let out = "", killed = false;
  for await (const bytes of child.stdout) {
    out += decoder.decode(bytes, { stream: true });
    if (!killed && out.includes("so it")) child.kill("SIGINT");
    killed ||= out.includes("so it");
  }
  const err = await new Response(child.stderr).text();
  assert.equal((await child.status).code, 130);
  assert.match(out, /^ and so it.*\n$/);
  assert.ok(out.length < 2000);
  assert.match(err, /tokens made, decode .* tok\/s; interrupted\n$/);
});
