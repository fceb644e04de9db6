/** `lapwing generate --spec`: what the flags ask of the engine, and what is said about the rounds. */
import assert from "node:assert/strict";
import { engineApi } from "../../engine/api.ts";
import { fakeEngine, type Script } from "./fake_engine.ts";
import { run } from "./fake_terminal.ts";

const ROUNDS = {
  drafter: "mtp",
  serial: 1,
  rounds: 40,
  drafted: 80,
  accepted: 60,
  acceptedAt: [35, 25],
};

async function generate(argv: readonly string[], script: Script = {}) {
  const engine = fakeEngine(script);
  const ran = await run(["generate", "It was", ...argv], { engine });
  assert.equal(engine.calls.alive, 0, "something was not disposed");
  return { ...ran, calls: engine.calls };
}

Deno.test("--spec says which drafter, and whether the head is loaded and fed", async () => {
  const cases = [
    { argv: [], drafter: "off", head: false },
    { argv: ["--spec", "off"], drafter: "off", head: false },
    { argv: ["--spec", "ngram"], drafter: "ngram", head: false },
    { argv: ["--spec", "mtp"], drafter: "mtp", head: true },
    { argv: ["--spec", "auto"], drafter: "auto", head: "optional" },
  ];
  for (const { argv, drafter, head } of cases) {
    const { calls, code } = await generate(argv);
    assert.equal(code, 0);
    assert.equal(calls.model!.draftHead, head);
    assert.deepEqual(calls.generate!.speculation, { drafter, drafts: undefined });
    assert.equal("draftHead" in (calls.session as object), Boolean(head));
  }
  const { calls } = await generate(["--spec", "ngram", "--draft-tokens", "5"]);
  assert.equal(calls.generate!.speculation!.drafts, 5);
  const auto = await generate(["--spec", "mtp", "--draft-tokens", "auto"]);
  assert.equal(auto.calls.generate!.speculation!.drafts, "auto");
});

Deno.test("draft tokens out of range, or without a drafter, are refused", async () => {
  for (const n of ["0", "16", "1.5", "many"]) {
    const { code, err } = await generate(["--spec", "ngram", "--draft-tokens", n]);
    assert.equal(code, 2);
    assert.match(err, /from 1 to 15/);
  }
  const { code, err } = await generate(["--draft-tokens", "3"]);
  assert.equal(code, 2);
  assert.match(err, /--draft-tokens needs drafts: give --spec/);
  assert.equal((await generate(["--spec", "tree"])).code, 2);
});

Deno.test("the last line and the JSON show rounds and acceptance", async () => {
  const { err } = await generate(["--spec", "mtp"], { rounds: ROUNDS });
  assert.match(err, /; 40 rounds, 60 of 80 drafts of mtp accepted \(75 %\); stop token\n$/);
  const none = { ...ROUNDS, rounds: 1, drafted: 0, accepted: 0 };
  const idle = await generate(["--spec", "mtp"], { rounds: none });
  assert.match(idle.err, /; 1 round, 0 of 0 drafts of mtp accepted; stop token\n$/);
  const { out } = await generate(["--spec", "mtp", "--json"], { rounds: ROUNDS });
  const { acceptedAt, ...others } = ROUNDS;
  assert.deepEqual(JSON.parse(out).rounds, { ...others, accepted_at: acceptedAt });
  assert(!("rounds" in JSON.parse((await generate(["--json"])).out)));
});

Deno.test("the built-in model says the same text with every --spec", async () => {
  const texts: string[] = [];
  for (const temperature of ["0", "0.9"]) {
    for (const spec of ["off", "ngram", "mtp", "auto"]) {
      const argv = ["generate", "The old house stood on", "-n", "60", "--ctx", "128"];
      const flags = ["--temperature", temperature, "--seed", "3", "--spec", spec];
      const { code, out, err } = await run([...argv, ...flags], { engine: engineApi });
      assert.equal(code, 0, err);
      assert.equal(/ rounds?, \d+ of \d+ drafts? of /.test(err), spec !== "off");
      texts.push(out);
    }
  }
  assert.equal(new Set(texts).size, 2);
});
