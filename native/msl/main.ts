/**
 * Translates .metal files: `main.ts <emu|cuda|check|msl> <out> [file...]`, a file being an op's name or a path
 * from the project's root. Files that would not change are left alone, so that make rebuilds no more than it must.
 */
import { emit, manifest, type Target } from "./emit.ts";
import { lex } from "./lex.ts";
import { parse, type Parsed } from "./parse.ts";
import { check } from "./rules.ts";
import { bundle, expandMacros } from "./source.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

async function writeIfChanged(path: string, text: string): Promise<void> {
  if (await Deno.readTextFile(path).catch(() => null) !== text) {
    await Deno.writeTextFile(path, text);
  }
}

const EXTENSION = { emu: "cc", cuda: "cu", check: "cl", msl: "metal" };

function pathOf(file: string): string {
  return file.endsWith(".metal") ? file : `kernels/ops/${file}/${file}.metal`;
}

/** Macros expanded, parsed and checked. `text` is a bundled source. */
export async function read(text: string, path: string, target: Target): Promise<Parsed> {
  const source = await expandMacros(text, [`-DLW_TARGET_${target.toUpperCase()}`]);
  const parsed = parse(source, path);
  check(parsed, lex(source, path));
  return parsed;
}

async function translate(target: Target | "msl", out: string, file: string): Promise<void> {
  const path = pathOf(file), stem = /(\w+)\.metal$/.exec(path)![1];
  const bundled = bundle(ROOT, path);
  const written = `${out}/${stem}.${EXTENSION[target]}`;
  if (target === "msl") return await writeIfChanged(written, bundled);
  const parsed = await read(bundled, path, target);
  await writeIfChanged(written, emit(parsed, target, stem));
  await writeIfChanged(`${out}/${stem}.json`, JSON.stringify(manifest(parsed), null, 1) + "\n");
}

if (import.meta.main) {
  const [target, out, ...files] = Deno.args;
  await Deno.mkdir(out, { recursive: true });
  let bad = 0;
  for (const file of files) {
    try {
      await translate(target as Target, out, file);
    } catch (e) {
      const { message } = e as Error;
      console.error(/\.(metal|h):\d+: /.test(message) ? message : `${pathOf(file)}: ${message}`);
      bad++;
    }
  }
  if (bad) Deno.exit(1);
}
