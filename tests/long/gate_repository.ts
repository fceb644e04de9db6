/**
 * By hand: a repository of its own whose pull requests are judged by the steps of the example workflow. A
 * clean change passes, a slower one fails with 1, one with other output with 4, documents are not measured.
 * `deno run -A tests/long/gate_repository.ts`
 */
import { join } from "node:path";
import { parse } from "yaml";
import {
  copyTree,
  denoOnPath,
  make,
  must,
  reword,
  ROOT,
  sh,
  slow,
  spoil,
  temporary,
} from "./trees.ts";

const EXAMPLES = join(ROOT, "examples/github-actions");
/** One instruction set builds three times as fast as all, and is as good for this. */
const MAKEFLAGS = "-- LEVELS=baseline";
/** Of a step's time; the example's policy tolerates 5 %. */
const LOSS = 0.2;

interface Step {
  readonly name?: string;
  readonly id?: string;
  readonly if?: string;
  readonly run?: string;
  readonly uses?: string;
  readonly "continue-on-error"?: boolean;
}

interface JobRun {
  readonly code: number;
  readonly log: string;
  readonly summary: string;
}

/** Runs the `run:` steps of a job as GitHub does: bash -e, one after another until one fails. */
async function runJob(repository: string, base: string, state: string): Promise<JobRun> {
  const text = await Deno.readTextFile(join(repository, ".github/workflows/bench-gate.yml"));
  const { jobs } = parse(text) as { jobs: { gate: { steps: Step[] } } };
  const outputs = new Map<string, string>();
  const output = join(state, "output"), summary = join(state, "summary");
  let log = "", code = 0;
  await Deno.writeTextFile(summary, "");
  for (const step of jobs.gate.steps) {
    if (step.run === undefined || !holds(step.if, outputs)) continue;
    await Deno.writeTextFile(output, "");
    const done = await sh("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", step.run], {
      cwd: repository,
      env: {
        BASE: base,
        GITHUB_OUTPUT: output,
        GITHUB_STEP_SUMMARY: summary,
        XDG_STATE_HOME: state,
        PATH: denoOnPath(),
        MAKEFLAGS,
        NO_COLOR: "1",
      },
    });
    log += `--- ${step.name}: exit ${done.code}\n${done.out}${done.err}`;
    for (const line of (await Deno.readTextFile(output)).split("\n")) {
      const at = line.indexOf("=");
      if (step.id && at > 0) outputs.set(`${step.id}.${line.slice(0, at)}`, line.slice(at + 1));
    }
    if (done.code === 0 || step["continue-on-error"]) continue;
    code = done.code;
    break;
  }
  return { code, log, summary: await Deno.readTextFile(summary) };
}

function holds(condition: string | undefined, outputs: ReadonlyMap<string, string>): boolean {
  if (condition === undefined) return true;
  const [, step, name, value] = /^steps\.(\w+)\.outputs\.(\w+) == '(\w+)'$/.exec(condition) ?? [];
  if (!step) throw new Error(`This runner does not know the condition ${condition}`);
  return outputs.get(`${step}.${name}`) === value;
}

async function makeRepository(repository: string): Promise<string> {
  await copyTree(repository);
  await Deno.mkdir(join(repository, ".github/workflows"), { recursive: true });
  await Deno.copyFile(
    join(EXAMPLES, "bench-gate.yml"),
    join(repository, ".github/workflows/bench-gate.yml"),
  );
  await Deno.copyFile(
    join(EXAMPLES, "bench-gate.json"),
    join(repository, ".github/bench-gate.json"),
  );
  await git(repository, "init", "--quiet", "--initial-branch", "main");
  return await commit(repository, "base");
}

async function git(repository: string, ...args: string[]): Promise<string> {
  const who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
  return (await must("git", ["-C", repository, ...who, ...args])).trim();
}

async function commit(repository: string, message: string): Promise<string> {
  await git(repository, "add", "--all");
  await git(repository, "commit", "--quiet", "-m", message);
  return await git(repository, "rev-parse", "HEAD");
}

/** Nanoseconds of one decoded token here and now. */
async function stepNs(repository: string, state: string): Promise<number> {
  const json = join(state, "step.json"), library = "build/liblapwing.so";
  const flags = ["--suite", "smoke", "--pairs", "6", "--json", json];
  await sh("deno", ["task", "compare", "--aa", "--base", library, "--head", library, ...flags], {
    cwd: repository,
    env: { XDG_STATE_HOME: state, PATH: denoOnPath() },
  });
  const { rows } = JSON.parse(await Deno.readTextFile(json));
  const { base_ns, steps } = rows[0].pairs[0];
  return base_ns / steps;
}

await using work = await temporary();
const repository = join(work.path, "repository"), state = join(work.path, "state");
await Deno.mkdir(state);
const base = await makeRepository(repository);
await make(repository, "LEVELS=baseline");
const ns = Math.round(LOSS / (1 - LOSS) * await stepNs(repository, state));
console.log(`a slower step waits ${ns} ns more`);

const CASES: [string, number, RegExp, (tree: string) => Promise<void>][] = [
  ["clean", 0, /^(PASS|INCONCLUSIVE) decode128@d0: /m, reword],
  ["slower", 1, /^FAIL decode128@d\d+: 0\.\d{3}x \(95% CI /m, (tree) => slow(tree, ns)],
  ["other output", 4, /^CHANGED decode128@d\d+: base and head make different tokens$/m, spoil],
  [
    "documents",
    0,
    /Nothing that runs has changed/,
    (tree) => Deno.writeTextFile(join(tree, "NOTES.md"), "Only words.\n"),
  ],
];
let failures = 0;
for (const [name, code, line, change] of CASES) {
  await git(repository, "clean", "--quiet", "-df");
  await git(repository, "checkout", "--quiet", "-B", "change", base);
  await change(repository);
  await commit(repository, name);
  const run = await runJob(repository, base, state);
  const good = run.code === code && line.test(run.log);
  if (!good) failures++;
  console.log(`${good ? "ok  " : "FAIL"} ${name}: exit ${run.code}, expected ${code}\n${run.log}`);
}
Deno.exit(failures === 0 ? 0 : 1);
