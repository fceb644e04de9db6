/** `lapwing gate` from files to exit codes, and what it writes for CI systems. */
import assert from "node:assert/strict";
import type { GateRow } from "../../bench/gate_result.ts";
import { annotations, gateLine, githubSummary, junit } from "../../bench/gate_text.ts";
import { run } from "../cli/fake_terminal.ts";
import { comparison } from "./documents.ts";

const PAIRED = { match: "decode*", mode: "paired", tolerance: "2%" };
const SLOW = { head: 0.95 };

const NASTY: GateRow = {
  id: 'decode,a:b|c<d>&"e"@d0',
  metric: "median_tps",
  mode: "paired",
  required: true,
  outcome: "fail",
  text: "50% slower\nsee | <b>",
  estimate: null,
};

Deno.test("outputs for CI systems: nothing in a name breaks them", () => {
  const result = { verdict: "regression" as const, rows: [NASTY], cumulative: [], notes: ["a\nb"] };
  const [error, notice] = annotations(result);
  assert.equal(
    error,
    '::error title=lapwing decode%2Ca%3Ab|c<d>&"e"@d0::FAIL decode,a:b|c<d>&"e"@d0: 50%25 slower%0Asee | <b>',
  );
  assert.equal(notice, "::notice title=lapwing::a%0Ab");
  const table = githubSummary(result).split("\n").find((l) => l.startsWith("| FAIL"))!;
  assert.equal(table.split(/(?<!\\)\|/).length, 7);
  const xml = junit(result);
  assert.match(xml, /tests="1" failures="1" errors="0" skipped="0"/);
  assert.match(xml, /name="decode,a:b\|c&lt;d&gt;&amp;&quot;e&quot;@d0 median_tps"/);
  assert.equal(gateLine({ ...NASTY, required: false }).endsWith("(does not block)"), true);
});

async function files(documents: Record<string, unknown>) {
  const folder = await Deno.makeTempDir();
  for (const [name, document] of Object.entries(documents)) {
    await Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(document));
  }
  const gate = (...args: string[]) =>
    run([
      "gate",
      "--policy",
      `${folder}/gate.json`,
      ...args.map((a) => a.replace("@/", `${folder}/`)),
    ], {
      env: { GITHUB_STEP_SUMMARY: `${folder}/summary.md` },
    });
  const remove = () => Deno.remove(folder, { recursive: true });
  return { folder, gate, [Symbol.asyncDispose]: remove };
}

Deno.test("command line: every exit code, and the first line is the verdict", async () => {
  await using f = await files({
    "gate.json": { rows: [PAIRED] },
    "strict.json": { rows: [PAIRED], on_inconclusive: "fail" },
    "mac.json": { rows: [PAIRED], env: { os: "darwin" } },
    "pass.json": await comparison(),
    "fail.json": await comparison({ script: SLOW }),
    "open.json": await comparison({ script: { head: 0.98, noise: 0.02 } }),
    "changed.json": await comparison({ script: { outputs: (side: string) => side } }),
    "crash.json": await comparison({ script: { crash: () => true } }),
    "broken.json": { schema: "lapwing-compare/1" },
  });
  const cases: [number, RegExp, string[]][] = [
    [0, /^PASS decode128@d0: 1\.00/, ["--report", "@/pass.json"]],
    [1, /^FAIL decode128@d0: 0\.95/, ["--report", "@/fail.json"]],
    [2, /^$/, ["--report", "@/broken.json"]],
    [2, /^$/, ["--report", "@/none.json"]],
    [2, /^$/, ["--report", "@/pass.json", "--accept", "why not"]],
    [3, /^ERROR decode128@d0: base: died of SIGSEGV/, ["--report", "@/crash.json"]],
    [4, /^CHANGED decode128@d0: /, ["--report", "@/changed.json"]],
    [0, /^INCONCLUSIVE decode128@d0: /, ["--report", "@/open.json"]],
    [5, /^INCONCLUSIVE /, ["--report", "@/open.json", "--policy", "@/strict.json"]],
    [6, /^ENVIRONMENT /, ["--report", "@/pass.json", "--policy", "@/mac.json"]],
  ];
  for (const [code, first, args] of cases) {
    const done = await f.gate(...args);
    assert.equal(done.code, code, `${args.join(" ")}: ${done.out}${done.err}`);
    assert.match(done.out, first);
    if (code === 2) assert.match(done.err, /^error: [^\n]+\n$/);
  }
});

Deno.test("command line: summary, JUnit, JSON and annotations are written together", async () => {
  await using f = await files({
    "gate.json": { rows: [PAIRED] },
    "fail.json": await comparison({ script: SLOW }),
  });
  const outputs = [
    "--github-summary",
    "--annotate",
    "--junit",
    "@/out.xml",
    "--json",
    "@/out.json",
  ];
  const { code, out } = await f.gate("--report", "@/fail.json", ...outputs);
  assert.equal(code, 1);
  assert.match(out, /\n::error title=lapwing decode128@d0::FAIL decode128@d0: 0\.95/);
  assert.match(await Deno.readTextFile(`${f.folder}/summary.md`), /## lapwing gate: Regression/);
  assert.match(await Deno.readTextFile(`${f.folder}/out.xml`), /<failure message="FAIL decode128/);
  assert.equal(JSON.parse(await Deno.readTextFile(`${f.folder}/out.json`)).verdict, "regression");
});

Deno.test("command line: accepting writes a baseline that the next gate reads", async () => {
  await using f = await files({
    "gate.json": { rows: [PAIRED] },
    "fail.json": await comparison({ script: SLOW }),
    "crash.json": await comparison({ script: { crash: () => true } }),
  });
  const store = ["--baseline", "@/baselines"];
  const broken = await f.gate("--report", "@/crash.json", ...store, "--accept", "no");
  assert.equal(broken.code, 2);
  const first = await f.gate("--report", "@/fail.json", ...store, "--accept", "worth it");
  assert.equal(first.code, 0);
  const again = await f.gate("--report", "@/fail.json", ...store);
  assert.equal(again.code, 0);
  assert.match(again.out, /^PASS decode128@d0: .*: accepted, worth it\n/);
  assert.match(again.out, /0\.9\d\dx since 20\d\d-\d\d-\d\d \(1 accepted\)/);
});
