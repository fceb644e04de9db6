/** `lapwing gate`: reports and a policy in, one verdict and its exit code out. */
import type { Command } from "commander";
import type { GateResult } from "../bench/gate_result.ts";
import { EXIT_OF } from "./compare.ts";
import type { Context } from "./context.ts";
import { EXIT } from "./exit.ts";
import { examples } from "./help.ts";
import { UserError } from "../engine/errors.ts";

interface Flags {
  readonly report: readonly string[];
  readonly policy: string;
  readonly baseline?: string;
  readonly accept?: string;
  readonly githubSummary?: true;
  readonly annotate?: true;
  readonly junit?: string;
  readonly json?: string;
}

const EXAMPLES = examples([
  ["gate --report compare.json --policy gate.json", "Does this change pass?"],
  [
    "gate --report compare.json bench.json --policy gate.json --github-summary --annotate",
    "In a GitHub workflow",
  ],
  [
    "gate --report compare.json --policy gate.json --baseline baselines --accept 'new sampler'",
    "Accept a loss, with a reason",
  ],
]);

/** Adds the command to the program. */
export function addGate(program: Command, context: Context): void {
  program.command("gate")
    .description("Judge reports by a policy: the entry point for CI")
    .requiredOption("--report <file...>", "results of compare and bench")
    .requiredOption("--policy <file>", "rules: which rows, which tolerance, what blocks")
    .option("--baseline <path>", "accepted measurements and history: a file or a folder")
    .option("--accept <reason>", "write these measurements as the baseline, and exit 0")
    .option("--github-summary", "append a table to $GITHUB_STEP_SUMMARY")
    .option("--annotate", "print workflow commands that GitHub shows beside the run")
    .option("--junit <file>", "write the verdicts as JUnit XML")
    .option("--json <file>", "write the verdicts as JSON")
    .addHelpText("after", EXAMPLES)
    .action((flags) => runGateCommand(context, flags));
}

async function runGateCommand(context: Context, flags: Flags) {
  if (flags.accept !== undefined && flags.baseline === undefined) {
    throw new UserError("--accept needs --baseline: where to write");
  }
  const { acceptRun, gate } = await import("../bench/gate_run.ts");
  const run = await gate({
    reports: flags.report,
    policy: flags.policy,
    ...(flags.baseline === undefined ? {} : { baseline: flags.baseline }),
    now: new Date(),
  });
  await publish(context, flags, run.result);
  const { verdict } = run.result;
  const fails = run.input.policy.on_inconclusive === "fail";
  context.exitCode = verdict === "inconclusive" && !fails ? EXIT.ok : EXIT_OF[verdict];
  if (flags.accept === undefined) return;
  if (flags.baseline === undefined) {
    throw new UserError("--accept needs --baseline: where to write");
  }
  const path = await acceptRun(run, flags.baseline, flags.accept);
  context.terminal.out(`accepted: ${flags.accept} (${path})\n`);
  context.exitCode = EXIT.ok;
}

async function publish(context: Context, flags: Flags, result: GateResult): Promise<void> {
  const text = await import("../bench/gate_text.ts");
  const { writeWhole } = await import("../bench/report_file.ts");
  const lines = [...text.gateLines(result), ...(flags.annotate ? text.annotations(result) : [])];
  context.terminal.out(lines.join("\n") + "\n");
  if (flags.githubSummary) {
    const path = context.env.GITHUB_STEP_SUMMARY;
    if (!path) throw new UserError("--github-summary: GITHUB_STEP_SUMMARY is not set");
    await Deno.writeTextFile(path, text.githubSummary(result), { append: true });
  }
  if (flags.junit !== undefined) await writeWhole(flags.junit, text.junit(result));
  if (flags.json !== undefined) {
    const document = { schema: "lapwing-gate/1", judged_at: new Date().toISOString(), ...result };
    await writeWhole(flags.json, JSON.stringify(document, null, 2) + "\n");
  }
}
