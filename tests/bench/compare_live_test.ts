/** Comparisons of real libraries in real workers, with the built-in model: short ones. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { compareSchema } from "../../bench/compare_report.ts";
import { defaultLibraryPath } from "../../ffi/abi/open.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const LIBRARY = defaultLibraryPath();
const QUICK = ["--suite", "smoke", "--threads", "1", "--pairs", "6", "--max-seconds", "60"];

async function workspace() {
  const folder = await Deno.makeTempDir();
  // Another hash, the same code: loaders pass over bytes behind the last section.
  const copy = `${folder}/copy.so`;
  const bytes = await Deno.readFile(LIBRARY);
  await Deno.writeFile(copy, new Uint8Array([...bytes, 120]));
  const remove = () => Deno.remove(folder, { recursive: true });
  return { folder, copy, [Symbol.asyncDispose]: remove };
}

function start(folder: string, ...args: string[]): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", `${ROOT}cli/main.ts`, "compare", ...args],
    env: { XDG_STATE_HOME: `${folder}/state`, NO_COLOR: "1" },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function finish(child: Deno.ChildProcess) {
  const { code, stdout, stderr } = await child.output();
  const text = (b: Uint8Array) => new TextDecoder().decode(b);
  return { code, out: text(stdout), err: text(stderr) };
}

async function readComparison(path: string) {
  return v.parse(compareSchema, JSON.parse(await Deno.readTextFile(path)));
}

Deno.test("compare: a library and its copy are never told apart", async () => {
  await using w = await workspace();
  const json = `${w.folder}/c.json`;
  const sides = ["--base", LIBRARY, "--head", w.copy];
  const done = await finish(start(w.folder, ...sides, ...QUICK, "--json", json));
  // 6: this machine was too busy for any verdict.
  assert.ok([0, 6].includes(done.code), done.out + done.err);
  const verdict = /^(PASS|INCONCLUSIVE) decode32@d0: \d\.\d{3}x \(95% CI /;
  if (done.code === 0) assert.match(done.out, verdict);
  assert.doesNotMatch(done.out, /^FAIL/);
  const c = await readComparison(json);
  assert.equal(c.outputs!.equal, true);
  assert.notEqual(c.base.library!.sha256, c.head.library!.sha256);
  assert.equal(c.rows.length, 1);
  for (const p of c.rows[0].pairs) assert.ok(p.base_ns > 50e6 && p.steps >= 32);
});

Deno.test("compare: --json - is JSON alone, and an A/A comparison keeps its noise", async () => {
  await using w = await workspace();
  const sides = ["--aa", "--base", LIBRARY, "--head", LIBRARY];
  const done = await finish(start(w.folder, ...sides, ...QUICK, "--json", "-"));
  const c = v.parse(compareSchema, JSON.parse(done.out));
  assert.equal(c.settings.aa, true);
  const kept = await Array.fromAsync(Deno.readDir(`${w.folder}/state/lapwing/noise`)).catch(
    () => [],
  );
  assert.equal(kept.length, c.session.valid ? 1 : 0);
});

Deno.test("compare: pointless and broken pairs of builds are refused in one line", async () => {
  await using w = await workspace();
  const debug = `${w.folder}/debug.so`;
  await Deno.writeTextFile(debug, "\x7fELF\0GNU C++17 12.2.0 -O0 -g\0");
  const broken = `${w.folder}/broken.so`;
  await Deno.writeTextFile(broken, "\x7fELF\0GNU C++17 12.2.0 -O3 -g\0");
  const cases: [string[], number, RegExp][] = [
    [["--base", LIBRARY, "--head", LIBRARY], 2, /are the same build/],
    [["--aa", "--base", LIBRARY, "--head", w.copy], 2, /give the same build/],
    [["--base", LIBRARY, "--head", debug], 2, /debug build/],
    [["--base", LIBRARY, "--head", broken], 3, /^error: head: Cannot open /m],
    [["--base", LIBRARY, "--head", "no-such-ref"], 2, /neither a file nor a git ref/],
    [["--base", LIBRARY, "--head", w.copy, "--pairs", "7"], 2, /even number/],
    [["--base", LIBRARY, "--head", w.copy, "-m", "no-model"], 2, /Model no-model/],
  ];
  for (const [args, code, message] of cases) {
    const done = await finish(start(w.folder, ...args, "--suite", "smoke"));
    assert.equal(done.code, code, done.out + done.err);
    assert.match(done.err, message);
    assert.equal(done.out, "");
  }
});

Deno.test("compare: Ctrl-C leaves a valid file and exits 130", async () => {
  await using w = await workspace();
  const json = `${w.folder}/c.json`;
  const sides = ["--base", LIBRARY, "--head", w.copy];
  const many = ["--suite", "smoke", "--threads", "1", "--pairs", "400", "--min-pairs", "400"];
  const child = start(w.folder, ...sides, ...many, "--json", json);
  const done = finish(child);
  setTimeout(() => child.kill("SIGINT"), 6000);
  const { code, out, err } = await done;
  assert.equal(code, 130, out + err);
  const c = await readComparison(json);
  assert.equal(c.session.interrupted, true);
  assert.match(out, /interrupted/);
});
