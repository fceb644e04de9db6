/** Words and calls that must not be in the tree, each with the reason why beside it. */
import assert from "node:assert/strict";
import { linesOf, projectFiles } from "./tree.ts";

interface Ban {
  readonly what: string;
  readonly in: RegExp;
  readonly except?: RegExp;
  readonly pattern: RegExp;
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
  },
  {
    what: "a name that says nothing (utils, helpers, common, manager, misc)",
    in: SOURCE,
    pattern:
      /\b(function|class|interface|type|const|let|struct|namespace|enum)\s+\w*(utils?|helpers?|manager|misc|common)(?![a-z])\w*/i,
  },
  {
    what: "native code that reads the environment, prints or ends the process",
    in: /^(native|kernels)\/.*\.(cc|h|mm|cu|metal)$/,
    pattern:
      /\b(getenv|printf|fprintf|puts|putchar|exit|_exit|abort|terminate|NSLog)\s*\(|std::(cout|cerr)/,
  },
  {
    what: "a path that only one machine has",
    in: TEXT,
    pattern: /(^|[\s"'`(=:])\/(home|root|work|Users|tmp|mnt)\/\w/,
  },
  {
    what: "a jsr: specifier, which build machines cannot reach",
    in: /\.(ts|json|lock)$/,
    pattern: /["']jsr:|@jsr\//,
  },
  {
    what: "Deno.env, Deno.args or Deno.exit outside cli/: hand it in",
    in: /^(bench|engine|ffi|kernels)\/.*\.ts$|^mod\.ts$/,
    // Run by hand or as a process of its own, and no part of what imports them.
    except: /^(ffi\/tape\/gen|bench\/worker)\.ts$/,
    pattern: /\bDeno\.(env|args|exit)\b/,
  },
];

for (const ban of BANS) {
  Deno.test(`tidy: nowhere ${ban.what}`, () => {
    const found = projectFiles()
      .filter((p) => ban.in.test(p) && !HERE.test(p) && !DATA.test(p) && !ban.except?.test(p))
      .flatMap((p) =>
        linesOf(p).flatMap((line, i) =>
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
