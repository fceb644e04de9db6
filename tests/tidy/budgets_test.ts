/**
 * How long files and functions may be. Those over a budget are listed by name with their length, a ratchet:
 * an entry may only shrink, and goes when it fits.
 */
import assert from "node:assert/strict";
import { functionsOf, linesOf, projectFiles } from "./tree.ts";

const FILE_BUDGETS: readonly [string, RegExp, number][] = [
  ["kernel file", /^kernels\/.*\.(cc|h|cu|metal)$/, 500],
  ["native file", /^(native|tests\/native)\/.*\.(cc|h|mm|cu)$/, 600],
  ["TypeScript file", /\.ts$/, 350],
];
const GENERATED = /^native\/gen\//;

const FUNCTION_BUDGET = 60;
/** Functions that only write down a model line by line. */
const RECORD_BUDGET = 120;

/** Files over their budget: path and lines. */
const LONG_FILES: Readonly<Record<string, number>> = {};
/** Functions over their budget: `path name` and lines. */
const LONG_FUNCTIONS: Readonly<Record<string, number>> = {};

function ratchet(found: Map<string, number>, listed: Readonly<Record<string, number>>): string[] {
  const complaints: string[] = [];
  for (const [name, lines] of found) {
    if (!(name in listed)) complaints.push(`${name} has ${lines} lines`);
    else if (lines > listed[name]) complaints.push(`${name} grew to ${lines} lines`);
    else if (lines < listed[name]) complaints.push(`${name}: lower its entry to ${lines}`);
  }
  for (const name of Object.keys(listed)) {
    if (!found.has(name)) complaints.push(`${name} fits now: remove its entry`);
  }
  return complaints;
}

Deno.test("tidy: no file is over its budget", () => {
  const long = new Map<string, number>();
  for (const path of projectFiles().filter((p) => !GENERATED.test(p))) {
    const budget = FILE_BUDGETS.find(([, pattern]) => pattern.test(path))?.[2];
    if (!budget) continue;
    const lines = linesOf(path).length;
    if (lines > budget) long.set(path, lines);
  }
  assert.deepEqual(ratchet(long, LONG_FILES), []);
});

Deno.test("tidy: no function is over its budget", () => {
  const long = new Map<string, number>();
  for (const path of projectFiles().filter((p) => p.endsWith(".ts"))) {
    for (const { name, lines } of functionsOf(linesOf(path))) {
      const records = path.startsWith("kernels/models/") && name.startsWith("record");
      if (lines > (records ? RECORD_BUDGET : FUNCTION_BUDGET)) long.set(`${path} ${name}`, lines);
    }
  }
  assert.deepEqual(ratchet(long, LONG_FUNCTIONS), []);
});
