/** The library example of README and mod.ts runs and writes what the command line writes. */
import assert from "node:assert/strict";

const ROOT = new URL("../", import.meta.url).pathname;

async function run(...args: string[]): Promise<string> {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", ...args],
    cwd: ROOT,
    stderr: "inherit",
  });
  const { success, stdout } = await command.output();
  assert(success);
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("the example prints the greedy continuation that generate prints", async () => {
  const example = await run("examples/generate.ts");
  const flags = ["Once upon a time", "--temperature", "0", "--max-tokens", "20"];
  assert(example.length > 20);
  assert.equal(example, await run("cli/main.ts", "generate", ...flags));
});
