/** Words and calls that must not be in the tree, each with the reason why beside it. */
import assert from "node:assert/strict";
import { linesOf, projectFiles } from "./tree.ts";

interface Ban {
  readonly what: string;
  readonly in: RegExp;
  readonly pattern: RegExp;
  /** Lines that it must find, and lines that it must not. */
  readonly bad: readonly string[];
  readonly good: readonly string[];
  /** Only what importers run: not what stands behind `if (import.meta.main)`. */
  readonly imported?: true;
}

const TEXT = /\.(ts|cc|h|mm|cu|metal|inc|json|sh|map|svg|css|html)$|(^|\/)(Makefile|run|deno)$/;
const SOURCE = /\.(ts|cc|h|mm|cu|metal)$/;
// This folder has to name what it bans; a changelog tells history; fixtures and models are data.
const HERE = /^tests\/tidy\//;
const DATA = /^(models|tests\/fixtures)\//;

const BANS: readonly Ban[] = [
  {
    what: "a marker of unfinished or past work: finish it, or write an issue",
    in: TEXT,
    pattern: /\b(ITER ?\d|FIXME|XXX|TODO|Phase \d)|\bPR ?#\d/,
    bad: ["// TODO: later", "// PR #12", "// ITER 3"],
    good: ["// the phase of a wave", "const items = 3;"],
  },
  {
    what: "a name that says nothing (utils, helpers, common, manager, misc)",
    in: SOURCE,
    pattern:
      /\b(function|class|interface|type|const|let|struct|namespace|enum)\s+\w*(utils?|helpers?|manager|misc|common)(?![a-z])\w*/i,
    bad: ["export function tapeUtils() {", "class BufferManager {", "struct misc {"],
    good: ["const commonest = 3;", 'import { promisify } from "node:util";'],
  },
  {
    what: "native code that reads the environment, prints or ends the process",
    in: /^(native|kernels)\/.*\.(cc|h|mm|cu|metal)$/,
    pattern:
      /\b(getenv|printf|fprintf|puts|putchar|exit|_exit|abort|terminate|NSLog)\s*\(|std::(cout|cerr)/,
    bad: ['\tgetenv("X");', "\texit(2);", "\tstd::cout << 1;"],
    good: ["\tsnprintf(text, 8, format);", "// The library never prints or exits"],
  },
  {
    what: "a path that only one machine has",
    in: TEXT,
    pattern: /(^|[\s"'`(=:])\/(home|root|work|Users|tmp|mnt)\/\w/,
    // Put together, so that no search for such paths stops here.
    bad: ['const p = "/' + 'home/me/x";', "cd /" + "work/main"],
    good: ["// q4/q8 and work/main", "url(https://a.b/" + "home/x)"],
  },
  {
    what: "a jsr: specifier, which build machines cannot reach",
    in: /\.(ts|json|lock)$/,
    pattern: /["']jsr:|@jsr\//,
    bad: ['import x from "jsr:@std/assert";'],
    good: ['import x from "npm:valibot@1";'],
  },
  {
    what: "Deno.env, Deno.args or Deno.exit outside cli/: hand it in",
    in: /^(bench|engine|ffi|kernels)\/.*\.ts$|^mod\.ts$/,
    imported: true,
    pattern: /\bDeno\.(env|args|exit)\b/,
    bad: ["  const v = Deno.env.get(name);", "Deno.exit(1);"],
    good: ["const arg = options.args;"],
  },
];

function looked(path: string, ban: Ban): string[] {
  const lines = linesOf(path);
  const main = lines.findIndex((line) => line.startsWith("if (import.meta.main)"));
  return ban.imported && main >= 0 ? lines.slice(0, main) : lines;
}

Deno.test("tidy: each ban finds what it is for", () => {
  for (const { what, pattern, bad, good } of BANS) {
    for (const line of bad) assert.match(line, pattern, what);
    for (const line of good) assert.doesNotMatch(line, pattern, what);
  }
});

for (const ban of BANS) {
  Deno.test(`tidy: nowhere ${ban.what}`, () => {
    const found = projectFiles()
      .filter((p) => ban.in.test(p) && !HERE.test(p) && !DATA.test(p))
      .flatMap((p) =>
        looked(p, ban).flatMap((line, i) =>
          ban.pattern.test(line) ? [`${p}:${i + 1}: ${line.trim()}`] : []
        )
      );
    assert.deepEqual(found, []);
  });
}

Deno.test("tidy: file names are snake_case and say something", () => {
  const odd = projectFiles()
    .filter((p) => SOURCE.test(p) && !DATA.test(p))
    .filter((p) => {
      const name = p.split("/").pop()!;
      return !/^[a-z0-9]+(_[a-z0-9]+)*\.[a-z]+$/.test(name) ||
        /(^|[/_])(utils?|helpers?|common|manager|misc)([/_.]|$)/.test(p);
    });
  assert.deepEqual(odd, []);
});

Deno.test("tidy: a source file begins by saying what it owns", () => {
  const all = projectFiles();
  const silent = all
    .filter((p) => SOURCE.test(p) && !/^kernels\/ops\/\w+\/op\.ts$/.test(p))
    // A header says it for the file that implements it.
    .filter((p) => !(p.endsWith(".cc") && all.includes(p.replace(/cc$/, "h"))))
    .filter((p) => !/^(\/\*\*?|\/\/|#!)/.test(linesOf(p)[0] ?? ""));
  assert.deepEqual(silent, []);
});
