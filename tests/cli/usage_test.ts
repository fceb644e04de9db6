/** The real command line in a process of its own: usage errors, help, version. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { run } from "./fake_terminal.ts";

const ROOT = new URL("../../", import.meta.url);

async function lapwing(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, stdout, stderr } = await new Deno.Command(new URL("scripts/deno", ROOT).pathname, {
    args: ["run", "-A", new URL("cli/main.ts", ROOT).pathname, ...args],
    stdin: "null",
    env: { DENO: Deno.execPath(), NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder();
  return { code, out: text.decode(stdout), err: text.decode(stderr) };
}

Deno.test("help, version and no arguments", async () => {
  const help = await lapwing("--help");
  assert.equal(help.code, 0);
  assert.match(help.out, /^Usage: lapwing .*\n/);
  assert.match(help.out, /Exit codes: 0 done; .* 130 interrupted\.\n$/s);
  const version = await lapwing("--version");
  assert.equal(version.code, 0);
  assert.match(version.out, /^\d+\.\d+\.\d+\S*\n$/);
  const none = await lapwing();
  assert.equal(none.code, 2);
  assert.equal(none.out, "");
  assert.equal(none.err, help.out);
});

Deno.test("usage errors: one line, a suggestion, code 2, nothing on standard output", async () => {
  const cases: [string[], string][] = [
    [["generat"], "unknown command 'generat' (Did you mean generate?)"],
    [["generate", "--modle", "x"], "unknown option '--modle' (Did you mean --model?)"],
  ];
  for (const [argv, message] of cases) {
    assert.deepEqual(await lapwing(...argv), { code: 2, out: "", err: `error: ${message}\n` });
  }
});

Deno.test("every command has help with examples", async () => {
  const { out } = await run(["help"]);
  const names = [...out.matchAll(/^ {2}(\w+) \S/gm)].map((m) => m[1]).filter((n) => n !== "help");
  assert.deepEqual(
    names.toSorted(),
    [
      "bench",
      "compare",
      "completions",
      "devices",
      "doctor",
      "explain",
      "export",
      "gate",
      "generate",
      "import",
      "inspect",
      "perplexity",
      "plot",
      "profile",
      "synth",
    ],
  );
  for (const name of names) {
    const help = await run([name, "--help"]);
    assert.equal(help.code, 0);
    assert.match(
      help.out,
      new RegExp(`^Usage: lapwing ${name} .*\nExamples:\n.*lapwing ${name}`, "s"),
    );
  }
});

Deno.test("malformed values: what, where and what was expected", async () => {
  const cases: [string[], RegExp][] = [
    [["--top-k", "abc"], /'--top-k <n>' .*'abc' .* whole number of at least 0, such as 40\./],
    [["--top-k", "1.5"], /whole number/],
    [["--top-k", "-1"], /'-1' .* whole number of at least 0/],
    [["--top-p", "0"], /number above 0 and at most 1, such as 0\.95/],
    [["--top-p", "1.01"], /number above 0 and at most 1/],
    [["--min-p", "5%"], /number from 0 to 1/],
    [["--repeat-penalty", "1e-300"], /Too small for a 32-bit float: expected at least 1\.2e-38, /],
    [["--top-p", "1e-39"], /'1e-39' .* 32-bit float: expected at least 1\.2e-38, such as 0\.95/],
    [["--min-p", ".1e-50"], /32-bit float: expected 0 or at least 1\.2e-38, such as 0\.05/],
    [["--temperature", "1e-400"], /32-bit float: expected 0 or at least/],
    [["--repeat-penalty", "1e-400"], /number above 0/],
    [["--temperature", "warm"], /number from 0 to 100, such as 0\.8/],
    [["--temperature", "Infinity"], /number from 0 to 100/],
    [["--seed", "4294967296"], /whole number from 0 to 4294967295/],
    [["-n", "0"], /'-n, --max-tokens <n>' .* of at least 1/],
    [["--kv", "f8"], /Allowed choices are f32, f16, bf16, q8\./],
    [["--device", "gpu"], /Allowed choices are cpu, /],
    [["--quantize", "3"], /Expected 4 or 8 bits\./],
    [["--plan", "x"], /NAME=on or NAME=off/],
    [["--plan", "x=yes"], /NAME=on or NAME=off/],
    [["--stop", ""], /Expected some text/],
    [["--threads", "0"], /whole number from 1 to 1024/],
    [["--ctx"], /option '--ctx <tokens>' argument missing/],
    [["a", "b"], /too many arguments for 'generate'/],
  ];
  for (const [argv, expected] of cases) {
    const { code, out, err } = await run(["generate", ...argv]);
    assert.equal(code, 2, argv.join(" "));
    assert.equal(out, "");
    assert.match(err, /^error: [^\n]+\n$/);
    assert.match(err, expected);
  }
});

Deno.test("streams that take nothing: a line where one can be written, and the code stays right", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  const main = new URL("cli/main.ts", ROOT).pathname;
  const through = async (redirect: string) => {
    const { code, stderr } = await new Deno.Command("sh", {
      args: ["-c", `"$0" run -A "$@" ${redirect}`, Deno.execPath(), main, "completions", "bash"],
      env: { NO_COLOR: "1" },
    }).output();
    return { code, err: new TextDecoder().decode(stderr) };
  };
  const { code, err } = await through(">/dev/full");
  assert.equal(code, 2);
  assert.match(err, /^error: Cannot write to standard output: No space left[^\n]*\n$/);
  assert.equal((await through("extra 2>/dev/full")).code, 2);
});

Deno.test("scripts/deno runs the deno that $DENO names, also from make, and never itself", async () => {
  const script = new URL("scripts/deno", ROOT).pathname;
  const { success } = await new Deno.Command(script, {
    args: ["--version"],
    env: { DENO: script, PATH: `${dirname(Deno.execPath())}:${Deno.env.get("PATH")}` },
  }).output();
  assert.ok(success);
  const { stdout } = await new Deno.Command("make", {
    args: ["--silent", "--no-print-directory", "--eval=say: ; @echo $$DENO", "say"],
    cwd: ROOT.pathname,
    env: { DENO: "/the/users/deno" },
  }).output();
  assert.equal(new TextDecoder().decode(stdout), "/the/users/deno\n");
});
