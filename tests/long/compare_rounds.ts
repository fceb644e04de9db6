/**
 * By hand, on a quiet machine: a library against its copy never fails, and one whose decode is 10 % slower
 * always does. `deno run -A tests/long/compare_rounds.ts [--same 20] [--slow 10] [compare flags...]`
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Comparison } from "../../bench/compare_report.ts";
import { median } from "../../bench/stats.ts";
import { copyBuild, copyTree, make, ROOT, sh, slow, temporary } from "./trees.ts";

const LOSS = 0.1;
const BUSY_MAX = 0.05;

const { values, positionals } = parseArgs({
  args: Deno.args,
  options: { same: { type: "string", default: "20" }, slow: { type: "string", default: "10" } },
  allowPositionals: true,
});
const flags = positionals.length > 0
  ? positionals
  : ["--suite", "smoke", "--threads", "1", "--pairs", "40"];

await using work = await temporary();
const json = join(work.path, "c.json");

async function compare(base: string, head: string) {
  const main = join(ROOT, "cli/main.ts");
  const args = [
    "run",
    "-A",
    main,
    "compare",
    "--base",
    base,
    "--head",
    head,
    ...flags,
    "--json",
    json,
  ];
  const { code, out, err } = await sh(Deno.execPath(), args, {
    env: { XDG_STATE_HOME: work.path, NO_COLOR: "1" },
  });
  if (out === "") throw new Error(err);
  console.log(`exit ${code}  ${out.trim()}`);
  const comparison: Comparison = JSON.parse(await Deno.readTextFile(json));
  return { code, comparison };
}

function stepNs({ rows }: Comparison): number {
  return median(rows[0].pairs.map((p) => p.base_ns / p.steps));
}

/** Share of all processors that was busy while nothing of this script ran. */
async function busyShare(): Promise<number> {
  const read = async () => {
    const fields = (await Deno.readTextFile("/proc/stat")).split("\n", 1)[0].trim().split(/ +/)
      .slice(1);
    const ticks = fields.map(Number);
    return { all: ticks.slice(0, 8).reduce((x, y) => x + y), idle: ticks[3] + ticks[4] };
  };
  const before = await read();
  await new Promise((done) => setTimeout(done, 3000));
  const after = await read();
  return 1 - (after.idle - before.idle) / (after.all - before.all);
}

async function quiet(): Promise<void> {
  while (await busyShare() > BUSY_MAX);
}

/** Comparisons until so many were valid; a machine that is busy is waited for, and what it spoils is counted. */
async function rounds(name: string, n: number, base: string, head: string) {
  const counts: Record<string, number> = {};
  let spoiled = 0;
  for (let valid = 0; valid < n && spoiled < 3 * n;) {
    await quiet();
    const { comparison } = await compare(base, head);
    const { outcome } = comparison.rows[0];
    // An invalid session is told as inconclusive; it must not be anything worse.
    if (!comparison.session.valid && outcome === "inconclusive") {
      spoiled++;
      continue;
    }
    valid++;
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  console.log(
    `${name}: ${JSON.stringify(counts)}, and ${spoiled} sessions that the machine spoiled`,
  );
  return counts;
}

const tree = join(work.path, "tree"),
  plain = join(work.path, "plain.so"),
  copy = join(work.path, "copy.so");
await copyTree(tree);
await copyBuild(tree);
await make(tree);
await Deno.copyFile(join(tree, "build/liblapwing.so"), plain);
await Deno.writeFile(copy, new Uint8Array([...await Deno.readFile(plain), 120]));
await quiet();
const ns = Math.round(LOSS / (1 - LOSS) * stepNs((await compare(plain, copy)).comparison));
console.log(`a step that is ${100 * LOSS} % slower waits ${ns} ns more`);
await slow(tree, "LW_TEST_SLOW_NS");
await make(tree, `OPTIMISE=-O3 -DLW_TEST_SLOW_NS=${ns}`);
const slowed = join(work.path, "slowed.so");
await Deno.copyFile(join(tree, "build/liblapwing.so"), slowed);

const same = await rounds("the same library", Number(values.same), plain, copy);
const slower = await rounds("10 % slower", Number(values.slow), plain, slowed);
Deno.exit(same.fail || slower.fail !== Number(values.slow) ? 1 : 0);
