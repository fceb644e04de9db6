/**
 * Translates kernels/ops/<op>/<op>.metal: `main.ts <emu|cuda|check|msl> <out> [op...]`. Files that would not change
 * are left alone, so that make rebuilds no more than it must.
 */
import { emit, manifest, type Target } from "./emit.ts";
import { parse } from "./parse.ts";
import { bundle, expandMacros } from "./source.ts";

const root = new URL("../../", import.meta.url).pathname;

async function writeIfChanged(path: string, text: string): Promise<void> {
  if (await Deno.readTextFile(path).catch(() => null) !== text) {
    await Deno.writeTextFile(path, text);
  }
}

const EXTENSION = { emu: "cc", cuda: "cu", check: "cl", msl: "metal" };

async function translate(target: Target | "msl", out: string, op: string): Promise<void> {
  const bundled = bundle(root, `kernels/ops/${op}/${op}.metal`);
  const path = `${out}/${op}.${EXTENSION[target]}`;
  if (target === "msl") return await writeIfChanged(path, bundled);
  const parsed = parse(await expandMacros(bundled, [`-DLW_TARGET_${target.toUpperCase()}`]));
  await writeIfChanged(path, emit(parsed, target, op));
  await writeIfChanged(`${out}/${op}.json`, JSON.stringify(manifest(parsed), null, 1) + "\n");
}

if (import.meta.main) {
  const [target, out, ...ops] = Deno.args;
  await Deno.mkdir(out, { recursive: true });
  let bad = 0;
  for (const op of ops) {
    try {
      await translate(target as Target, out, op);
    } catch (e) {
      console.error(`kernels/ops/${op}/${op}.metal: ${(e as Error).message}`);
      bad++;
    }
  }
  if (bad) Deno.exit(1);
}
