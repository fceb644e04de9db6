/** Who may import whom: a chain without cycles, read from Deno's own module graph. */
import assert from "node:assert/strict";
import { projectFiles, ROOT } from "./tree.ts";

/** The chain, upper rooms first; a room may import itself and those below. */
const CHAIN = ["cli", "bench", "engine", "ffi/tape", "ffi/abi"];
/** mod.ts names the types of its results. */
const USES_KERNELS = ["engine", "ffi/tape", "kernels", "mod.ts"];

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly code?: { readonly specifier?: string };
    readonly type?: { readonly specifier?: string };
  }[];
}

interface Edge {
  readonly from: string;
  readonly to: string;
  /** Not erased with the types. */
  readonly runs: boolean;
}

function roomOf(path: string): string {
  return [...CHAIN, "kernels", "tests", "examples"].find((room) => path.startsWith(room + "/")) ??
    path;
}

/** Every import between two files of this project, types included. */
async function edges(): Promise<Edge[]> {
  const all = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    const files = projectFiles().filter((p) => p.endsWith(".ts"));
    await Deno.writeTextFile(all, files.map((p) => `import "file://${ROOT}${p}";\n`).join(""));
    const { stdout, success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["info", "--json", "--config", ROOT + "deno.json", all],
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
    const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: Module[] };
    const own = (specifier?: string) =>
      specifier?.startsWith(`file://${ROOT}`)
        ? specifier.slice(`file://${ROOT}`.length)
        : undefined;
    return modules.flatMap((m) =>
      (m.dependencies ?? []).flatMap((d) => {
        const from = own(m.specifier), to = own((d.code ?? d.type)?.specifier);
        return from && to && to.endsWith(".ts") ? [{ from, to, runs: !!d.code }] : [];
      })
    );
  } finally {
    await Deno.remove(all);
  }
}

const graph = await edges();

function breaking(rule: (from: string, to: string) => boolean): string[] {
  return graph.filter(({ from, to }) => !rule(roomOf(from), roomOf(to)))
    .map(({ from, to }) => `${from} imports ${to}`);
}

Deno.test("tidy: the graph is the project's", () => {
  assert.ok(graph.length > 200, `${graph.length} imports`);
  assert.ok(graph.some((e) => e.from === "cli/main.ts" && e.to === "cli/program.ts"));
});

Deno.test("tidy: rooms import downwards only", () => {
  const complaints = breaking((from, to) =>
    !CHAIN.includes(from) || !CHAIN.includes(to) || CHAIN.indexOf(from) <= CHAIN.indexOf(to)
  );
  assert.deepEqual(complaints, []);
});

Deno.test("tidy: kernels/ is imported by engine and ffi/tape, and imports nothing outside itself", () => {
  const complaints = breaking((from, to) =>
    from === "kernels"
      ? to === "kernels"
      : to !== "kernels" || USES_KERNELS.includes(from) || from === "tests"
  );
  assert.deepEqual(complaints, []);
});

Deno.test("tidy: nothing imports tests/ or an example", () => {
  const complaints = breaking((from, to) =>
    (to !== "tests" || from === "tests") && to !== "examples"
  );
  assert.deepEqual(complaints, []);
});

Deno.test("tidy: no file loads itself over others", () => {
  const next = new Map<string, string[]>();
  for (const { from, to } of graph.filter((e) => e.runs)) {
    next.set(from, [...(next.get(from) ?? []), to]);
  }
  const done = new Set<string>();
  const visit = (path: string, above: readonly string[]): void => {
    const at = above.indexOf(path);
    assert.ok(at < 0, [...above.slice(at), path].join(" -> "));
    if (done.has(path)) return;
    for (const to of next.get(path) ?? []) visit(to, [...above, path]);
    done.add(path);
  };
  for (const path of next.keys()) visit(path, []);
});
