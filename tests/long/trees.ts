/** Copies of the source tree in which one kernel is slowed or spoiled: mistakes for gates to find. */
import { dirname, join } from "node:path";

export const ROOT = new URL("../../", import.meta.url).pathname;
/** Runs once a decoded token, on one thread. */
const KERNEL = "kernels/ops/step_advance/step_advance.cc";
const GUARD = "if (begin != 0 || end == 0) return;";
const TOKEN = "picked[0]";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function sh(
  command: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string> } = {},
): Promise<Ran> {
  const done = await new Deno.Command(command, { args: [...args], stdin: "null", ...options })
    .output();
  const text = (b: Uint8Array) => new TextDecoder().decode(b);
  return { code: done.code, out: text(done.stdout), err: text(done.stderr) };
}

export async function must(
  command: string,
  args: readonly string[],
  options = {},
): Promise<string> {
  const done = await sh(command, args, options);
  if (done.code !== 0) throw new Error(`${command} ${args.join(" ")}: ${done.out}${done.err}`);
  return done.out;
}

/** Copies tracked and new files with their times, so that what was built of them stays good. */
export async function copyTree(to: string): Promise<void> {
  const list = await must("git", ["-C", ROOT, "ls-files", "-co", "--exclude-standard"]);
  const files = list.trim().split("\n");
  const there = await Promise.all(
    files.map((f) => Deno.stat(ROOT + f).then(() => true, () => false)),
  );
  const kept = files.filter((_, i) => there[i]);
  await Deno.mkdir(to, { recursive: true });
  await must("cp", ["-a", "--parents", ...kept, to], { cwd: ROOT });
}

/** Also copies what was built. */
export async function copyBuild(to: string): Promise<void> {
  await Deno.mkdir(join(to, "build"), { recursive: true });
  await must("cp", ["-a", "build/obj", "build/liblapwing.so", join(to, "build")], { cwd: ROOT });
}

async function edit(tree: string, change: (text: string) => string): Promise<void> {
  const path = join(tree, KERNEL), before = await Deno.readTextFile(path);
  const after = change(before);
  if (after === before) throw new Error(`${KERNEL} is not what this script expects`);
  await Deno.writeTextFile(path, after);
}

/** Every decoded token waits so long; `define` instead of a number leaves the length to the compiler's flags. */
export async function slow(tree: string, ns: number | "LW_TEST_SLOW_NS"): Promise<void> {
  const wait =
    `const auto slow_until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(${ns});
	while (std::chrono::steady_clock::now() < slow_until) {}`;
  await edit(
    tree,
    (text) =>
      text.replace(
        '#include "native/cpu/kernel.h"',
        '#include <chrono>\n\n#include "native/cpu/kernel.h"',
      )
        .replace(GUARD, `${GUARD}\n\t${wait}`),
  );
}

/** Every decoded token is another one. */
export async function spoil(tree: string): Promise<void> {
  await edit(tree, (text) => text.replace(TOKEN, `${TOKEN} ^ 1u`));
}

/** Another text of the same program. */
export async function reword(tree: string): Promise<void> {
  await edit(tree, (text) => text.replace(/\bproduced\b/g, "made"));
}

export async function make(tree: string, ...args: string[]): Promise<void> {
  await must("make", ["-C", tree, "lib", ...args]);
}

export async function temporary(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.makeTempDir({ prefix: "lapwing-long-" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

export function denoOnPath(): string {
  return `${dirname(Deno.execPath())}:${Deno.env.get("PATH")}`;
}
