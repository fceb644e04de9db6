/**
 * `lapwing doctor`: does this installation work? Runs each check on its own and says what to do about
 * one that fails. Measures nothing.
 */
import type { Command } from "commander";
import type { DeviceInfo, EngineApi } from "../engine/api_types.ts";
import { ALIASES, cacheFolder, resolveModel } from "../engine/aliases.ts";
import { UserError } from "../engine/errors.ts";
import { NO_APPLE_FIGURES } from "../engine/caveats.ts";
import { GREEDY } from "../engine/generation_config.ts";
import type { Context } from "./context.ts";
import { complaintOf, EXIT } from "./exit.ts";
import { FLAGS } from "./flags.ts";
import { examples } from "./help.ts";
import { bytes, json, terminalSafe } from "./print.ts";

export interface Finding {
  readonly check: string;
  /** Null: something optional that is not here; `detail` says how to get it. */
  readonly ok: boolean | null;
  /** What was found, or what went wrong. */
  readonly detail: string;
}

const NEED_DENO = [2, 9];
const SMOKE_TOKENS = 8;

/** Adds the command to the program. */
export function addDoctor(program: Command, context: Context): void {
  program.command("doctor")
    .description("Check that this installation works")
    .addOption(FLAGS.json)
    .addHelpText("after", examples([["doctor", "After installing"]]))
    .action((flags) => runDoctor(context, flags));
}

async function runDoctor(context: Context, flags: { readonly json?: true }) {
  const { outPaint: paint, terminal } = context;
  const findings: Finding[] = [];
  for (const [check, run] of checks(context)) {
    const finding = await examine(check, run);
    findings.push(finding);
    if (flags.json) continue;
    const mark = finding.ok
      ? paint("green", "ok  ")
      : finding.ok === null
      ? paint("yellow", "--  ")
      : paint("red", "FAIL");
    terminal.out(`${mark} ${check}: ${finding.detail}\n`);
  }
  if (flags.json) terminal.out(json(findings));
  if (findings.some((f) => f.ok === false)) context.exitCode = EXIT.check;
}

/** Something optional that this installation does without. */
class Missing extends Error {}

async function examine(check: string, run: () => string | Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await run() };
  } catch (e) {
    if (e instanceof Missing) return { check, ok: null, detail: e.message };
    return { check, ok: false, detail: complaintOf(e).lines.join("; ") };
  }
}

function checks(context: Context): [string, () => string | Promise<string>][] {
  // Listing opens every device with all of its threads: once is enough.
  let listed: Promise<readonly DeviceInfo[]> | undefined;
  const devices = () => listed ??= context.engine().then((engine) => engine.listDevices());
  return [
    ["deno", denoVersion],
    ["devices", async () => deviceList(await devices())],
    ["metal", async () => player(await context.engine(), await devices(), "metal")],
    ["cuda", async () => player(await context.engine(), await devices(), "cuda")],
    ["emulator", async () => emulator(await devices())],
    ["apple", () => neverMeasured()],
    ["memory", () => `${bytes(Deno.systemMemoryInfo().available)} free`],
    ["checkpoint", async () => checkpoint(await context.engine(), context)],
    ["models", () => models(context)],
    ["generate", async () => smoke(await context.engine(), context)],
  ];
}

function denoVersion(): string {
  const [major, minor] = Deno.version.deno.split(".").map(Number);
  if (major > NEED_DENO[0] || (major === NEED_DENO[0] && minor >= NEED_DENO[1])) {
    return Deno.version.deno;
  }
  throw new UserError(`Deno ${Deno.version.deno} is older than ${NEED_DENO.join(".")}`);
}

function deviceList(devices: readonly DeviceInfo[]): string {
  if (devices.length === 0) throw new UserError("The native library has no device");
  return devices.map((d) => [d.kind, d.isa].filter(Boolean).join(" ")).join(", ");
}

/** In the library's words: no driver, no device, or no player built. */
function whyNone(engine: EngineApi, kind: "metal" | "cuda"): string {
  try {
    using _ = engine.openDevice({ kind });
  } catch (e) {
    const { cause, message } = e as Error;
    return cause instanceof Error ? cause.message : message;
  }
  return `no ${kind} device`;
}

function player(
  engine: EngineApi,
  devices: readonly DeviceInfo[],
  kind: "metal" | "cuda",
): string {
  const found = devices.filter((d) => d.kind === kind);
  if (found.length > 0) return found.map((d) => d.name).join(", ");
  throw new Missing(`${whyNone(engine, kind)}; models run on the CPU`);
}

function neverMeasured(): never {
  throw new Missing(NO_APPLE_FIGURES);
}

function emulator(devices: readonly DeviceInfo[]): string {
  if (devices.some((d) => d.kind === "emu")) return "runs the kernels for Metal";
  throw new Missing("needs a processor with AVX2, FMA and F16C");
}

/** Aliases whose checkpoints are in the cache. */
async function models(context: Context): Promise<string> {
  const found: string[] = [];
  for (const alias of ALIASES) {
    const there = await resolveModel(alias, context.env).then(() => true, () => false);
    if (there && alias !== "tiny") found.push(alias);
  }
  const cache = cacheFolder(context.env);
  if (found.length > 0) return `${found.join(", ")} in ${cache}`;
  throw new Missing(
    `only the built-in one; none of ${ALIASES.slice(1).join(", ")} is in ${cache} ` +
      `(hf download REPOSITORY puts one there)`,
  );
}

async function checkpoint(engine: EngineApi, context: Context): Promise<string> {
  const report = await engine.inspectCheckpoint("tiny", context.env);
  if (report.refusals.length > 0) throw new UserError(report.refusals[0]);
  return `${report.path}, ${bytes(report.fileBytes)}`;
}

/** The built-in model says the same thing twice. */
async function smoke(engine: EngineApi, context: Context): Promise<string> {
  using device = engine.openDevice({ kind: "cpu" });
  using model = await engine.openModel("tiny", { device, env: context.env });
  const say = async () => {
    using session = engine.createSession(model, { ctx: 64 });
    const run = engine.generate(session, {
      prompt: model.tokenizer.encode("It was a bright morning"),
      maxTokens: SMOKE_TOKENS,
      sampling: GREEDY,
      stopIds: [],
      stopStrings: [],
    });
    for (;;) {
      const step = await run.next();
      if (step.done) return step.value;
    }
  };
  const first = await say(), second = await say();
  if (first.ids.length !== SMOKE_TOKENS) {
    throw new UserError(`The model made ${first.ids.length} of ${SMOKE_TOKENS} tokens`);
  }
  if (first.ids.join() !== second.ids.join()) {
    throw new UserError("The model made different tokens for the same prompt");
  }
  return `"${terminalSafe(first.text).trim()}"`;
}
