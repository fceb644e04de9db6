/**
 * A comparison from two names to a document: preflight, builds, workers, session, file. Owns what is refused
 * and what is only warned of. Prints nothing; `tell` gets lines for people who wait.
 */
import { inspectCheckpoint } from "../engine/inspect.ts";
import { UserError } from "../engine/errors.ts";
import type { Env } from "../engine/api_types.ts";
import { compareSession, type SessionHooks, type SessionResult } from "./compare.ts";
import {
  COMPARE_SCHEMA,
  type CompareSettings,
  type Comparison,
  type NoiseProfile,
} from "./compare_report.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { forecast, readNoise } from "./noise.ts";
import { areSame, buildSubject, type Built, nameSubject, type SubjectSource } from "./refs.ts";
import type { Environment, ReportHead } from "./report.ts";
import { compareReports } from "./stored_files.ts";
import type { Side, Surroundings, Workload } from "./subject.ts";
import { contextOf, suite } from "./suites.ts";
import { WorkerSubject } from "./worker_client.ts";
import { writeWhole } from "./report_file.ts";

export interface CompareRequest {
  readonly base: string;
  readonly head: string;
  readonly settings: CompareSettings;
  readonly argv: readonly string[];
  readonly tool: ReportHead["tool"];
  readonly env: Env;
  /** Folder of noise profiles. */
  readonly noiseFolder: string;
  /** Written after each row, so that what was measured survives. */
  readonly json?: string;
  readonly around: Surroundings;
  readonly tell: (line: string) => void;
  readonly onProgress?: SessionHooks["onProgress"];
}

/** Outputs are compared behind prompts of some hundred tokens, whatever the suite needs. */
const CTX_MIN = 512;
/** Load of a machine on which nothing else runs. */
const LOAD_MAX = 0.5;

export async function runCompare(request: CompareRequest): Promise<Comparison> {
  const base = await nameSubject(request.base, "base");
  const head = await nameSubject(request.head, "head");
  if (base.kind === "report" && head.kind === "report") {
    const comparison = await compareReports(base, head, request);
    await save(comparison, request.json);
    return comparison;
  }
  if (base.kind === "report" || head.kind === "report") {
    throw new UserError(
      "A stored report can only be held against another one: give a library or a ref for both sides, " +
        "or measure the other side with `bench --json` first.",
    );
  }
  return await measure(base, head, request);
}

type Startable = Exclude<SubjectSource, { kind: "report" }>;

async function measure(
  base: Startable,
  head: Startable,
  request: CompareRequest,
): Promise<Comparison> {
  const { settings } = request;
  const workloads = suite(settings.suite);
  const ctx = Math.max(CTX_MIN, contextOf(workloads));
  await using cleanup = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "lapwing-compare-" });
  cleanup.defer(() => Deno.remove(folder, { recursive: true }));
  const builtBase = await buildSubject(base, folder, cleanup, request.tell);
  const builtHead = await buildSubject(head, folder, cleanup, request.tell);
  refusePointless(builtBase, builtHead, settings.aa);
  await refuseTooLarge(request, ctx);
  const start = (built: Built, side: Side) =>
    cleanup.use(
      new WorkerSubject({ side, program: built.program, request: open(built, settings, ctx) }),
    );
  const a = start(builtBase, "base"), b = start(builtHead, "head");
  await a.opened();
  const { env, model } = await b.opened();
  const fingerprint = fingerprintOf({ env, ...settings });
  const noise = await readNoise(request.noiseFolder, fingerprint);
  const warnings = [...builtBase.warnings, ...builtHead.warnings, ...warningsOf(env)];
  announce(request, workloads, noise, warnings);
  const started = new Date().toISOString();
  const document = (result: SessionResult): Comparison => ({
    schema: COMPARE_SCHEMA,
    run_id: crypto.randomUUID(),
    started_at: started,
    tool: request.tool,
    argv: [...request.argv],
    settings,
    env,
    model,
    fingerprint,
    base: builtBase.identity,
    head: builtHead.identity,
    noise,
    warnings,
    ...result,
  });
  const result = await compareSession(a, b, workloads, settings, request.around, {
    onRow: (r) => save(document(r), request.json),
    ...(request.onProgress ? { onProgress: request.onProgress } : {}),
  });
  return document(result);
}

async function save(comparison: Comparison, path: string | undefined): Promise<void> {
  if (path !== undefined) await writeWhole(path, JSON.stringify(comparison, null, 2) + "\n");
}

function open(built: Built, s: CompareSettings, ctx: number) {
  const { model, synthetic, device, threads, kv, quantize, plan } = s;
  return { model, synthetic, library: built.library, device, threads, kv, quantize, plan, ctx };
}

function refusePointless(base: Built, head: Built, aa: boolean): void {
  const same = areSame(base.identity, head.identity);
  if (same && !aa) {
    const sha = head.identity.library!.sha256.slice(0, 12);
    throw new UserError(
      `base and head are the same build (library ${sha}): there is nothing to compare. ` +
        `Rebuild the side that changed, or give --aa to measure the machine's noise.`,
    );
  }
  if (!same && aa) {
    throw new UserError("--aa measures noise: give the same build as --base and as --head.");
  }
}

/** Both subjects hold the model at the same time; mapped weights are shared. */
async function refuseTooLarge({ settings, env }: CompareRequest, ctx: number): Promise<void> {
  // A synthetic model has no file to look into; its workers refuse what does not fit.
  if (settings.synthetic) return;
  const { memory } = await inspectCheckpoint(settings.model, env);
  const wanted = memory.filter((m) => m.ctx >= ctx)[0] ?? memory.at(-1);
  if (!wanted) return;
  const needed = wanted.weightBytes + 2 * (wanted.totalBytes - wanted.weightBytes);
  const { available } = Deno.systemMemoryInfo();
  if (needed <= available) return;
  const gb = (n: number) => `${(n / 1e9).toFixed(1)} GB`;
  throw new UserError(
    `Two copies of ${settings.model} need about ${gb(needed)}; ${gb(available)} are free. ` +
      `Close what else runs, or take a smaller model.`,
  );
}

function warningsOf(env: Environment): string[] {
  const out: string[] = [];
  if (env.power_source === "battery" || env.low_power) {
    out.push("the machine saves power: plug it in");
  }
  if (env.load_before[0] > LOAD_MAX) {
    out.push(`something else runs here: the load is ${env.load_before[0].toFixed(1)}`);
  }
  if (env.governor !== null && env.governor !== "performance") {
    out.push(`the clock is not locked: governor ${env.governor}`);
  }
  return out;
}

function announce(
  { settings, tell }: CompareRequest,
  workloads: readonly Workload[],
  noise: NoiseProfile | null,
  warnings: readonly string[],
): void {
  for (const w of warnings) tell(`warning: ${w}`);
  const known = workloads.flatMap(({ id }) => {
    const mde = forecast(noise, id, settings.pairs, settings.confidence);
    return mde === null ? [] : [`${(100 * mde).toFixed(1)} % of ${id}`];
  });
  const day = noise?.measured_at.slice(0, 10);
  tell(
    known.length > 0
      ? `${settings.pairs} pairs should show a change of ${known.join(", ")} (noise of ${day})`
      : "no noise profile of this machine: --aa makes one",
  );
}
