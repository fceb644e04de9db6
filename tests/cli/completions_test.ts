/** Completion scripts: they parse, and bash's answers are right. */
import assert from "node:assert/strict";
import { run } from "./fake_terminal.ts";

async function script(shell: string): Promise<string> {
  const { code, out } = await run(["completions", shell]);
  assert.equal(code, 0);
  return out;
}

/** Runs a shell with a script on its standard input; null when it is not installed. */
async function shell(name: string, args: string[], input: string): Promise<string | null> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(name, { args, stdin: "piped", stdout: "piped", stderr: "piped" })
      .spawn();
  } catch (e) {
    if (e instanceof Deno.errors.NotFound) return null;
    throw e;
  }
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

Deno.test("the scripts pass the syntax checks of the shells that are installed", async () => {
  assert.notEqual(await shell("bash", ["-n"], await script("bash")), null);
  await shell("zsh", ["-n"], await script("zsh"));
  await shell("fish", ["-n"], await script("fish"));
});

Deno.test("bash: commands, flags of a command, values of a flag", async () => {
  const source = await script("bash");
  const complete = async (...words: string[]) => {
    const list = words.map((w) => `'${w}'`).join(" ");
    const ask = `\nCOMP_WORDS=(${list}) COMP_CWORD=${words.length - 1}\n_lapwing\n` +
      `printf '%s\\n' "\${COMPREPLY[@]}"\n`;
    return (await shell("bash", [], source + ask))!.split("\n").filter((l) => l !== "");
  };
  assert.deepEqual(await complete("lapwing", "ge"), ["generate"]);
  assert.deepEqual(await complete("lapwing", "generate", "--top-"), ["--top-k", "--top-p"]);
  assert.deepEqual(await complete("lapwing", "generate", "hi", "--kv", ""), [
    "f32",
    "f16",
    "bf16",
    "q8",
  ]);
  assert.deepEqual(await complete("lapwing", "generate", "--file", "x"), []);
  assert.deepEqual(await complete("lapwing", "completions", "f"), ["fish"]);
  assert.deepEqual(await complete("lapwing", "explain", "--phase", "v"), ["verify"]);
});

Deno.test("an unknown shell is refused", async () => {
  const { code, err } = await run(["completions", "tcsh"]);
  assert.equal(code, 2);
  assert.match(err, /^error: .*'tcsh'.* Allowed choices are bash, zsh, fish\.\n$/);
});
