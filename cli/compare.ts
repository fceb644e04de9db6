/** `lapwing compare`: two libraries, refs or reports and one verdict a row. Flags in, lines out. */
import type { Command } from "commander";
import { InvalidArgumentError, Option } from "commander";
import type { CompareSettings, Comparison } from "../bench/compare_report.ts";
import type { CompareProgress } from "../bench/compare.ts";
import type { KvType } from "../engine/api_types.ts";
import type { Context } from "./context.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { decimal, FLAGS, type ModelFlags, whole } from "./flags.ts";
import { examples } from "./help.ts";
import { noteTo, threadsNotes } from "./notes.ts";
import { ProgressBar } from "./progress.ts";

interface Flags extends ModelFlags {
  readonly base: string;
  readonly head: string;
  readonly kv: KvType;
  readonly suite: string;
  readonly pairs: number;
  readonly minPairs: number;
  readonly maxSeconds: number;
  readonly tolerance: number;
  readonly confidence: number;
  readonly order: "abba" | "random";
  readonly seed: number;
  readonly json?: string;
  readonly synthetic?: true;
  readonly aa?: true;
  readonly allowOutputChange?: string;
  readonly onInconclusive: "allow" | "fail";
}

const EXAMPLES = examples([
  ["compare --base main --head HEAD", "Has this branch become slower than main?"],
  ["compare --base old/liblapwing.so --head build/liblapwing.so --json compare.json", "Two builds"],
  ["compare --aa --base HEAD --head HEAD", "How well can this machine tell?"],
]);

/** Adds the command to the program. */
export function addCompare(program: Command, context: Context): void {
  program.command("compare")
    .description("Measure two builds against each other, and say whether one is slower")
    .requiredOption("--base <what>", "a library, a git ref or a stored report")
    .requiredOption("--head <what>", "the same: what changed")
    .addOption(FLAGS.model)
    .option("--synthetic", "random weights for the architecture: no checkpoint is needed")
    .addOption(FLAGS.device)
    .addOption(FLAGS.threads)
    .addOption(FLAGS.kv)
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .addOption(
      new Option("--suite <name>", "workloads").choices(["decode", "prefill", "smoke"])
        .default("decode"),
    )
    .option("--pairs <n>", "pairs of a row at most", evenPairs, 20)
    .option("--min-pairs <n>", "pairs before the first verdict", evenPairs, 6)
    .option(
      "--max-seconds <s>",
      "time for all rows",
      decimal({ min: 0, above: true, example: "900" }),
      900,
    )
    .option("--tolerance <percent>", "a loss that does not matter", percentage(0, 50), 0.02)
    .option(
      "--confidence <percent>",
      "of the intervals, all looks together",
      percentage(50, 99.9),
      0.95,
    )
    .addOption(
      new Option("--order <order>", "of the sides").choices(["abba", "random"] as const)
        .default("abba" as const),
    )
    .addOption(FLAGS.seed)
    .option("--json <file>", "write the result; - is standard output")
    .option("--aa", "the same build on both sides: measure the machine's noise and keep it")
    .option("--allow-output-change <reason>", "go on although the tokens differ, and record why")
    .addOption(
      new Option("--on-inconclusive <what>", "allow: exit 0; fail: exit 5")
        .choices(["allow", "fail"] as const).default("allow" as const),
    )
    .addHelpText("after", EXAMPLES)
    .action((flags) => runCompareCommand(context, flags));
}

function evenPairs(text: string): number {
  const n = whole({ min: 2, max: 1000, example: "20" })(text);
  if (n % 2 === 0) return n;
  throw new InvalidArgumentError("Expected an even number: an A B B A is two pairs.");
}

/** `2%` and `2` are 0.02. */
export function percentage(min: number, max: number): (text: string) => number {
  return (text) => decimal({ min, max, example: "2%" })(text.replace(/\s*%$/, "")) / 100;
}

async function runCompareCommand(context: Context, flags: Flags) {
  const { terminal } = context;
  const { runCompare } = await import("../bench/compare_run.ts");
  const { keepNoise, noiseFolder, profileOf } = await import("../bench/noise.ts");
  const { toolIdentity } = await import("../bench/identity.ts");
  const { machineSurroundings } = await import("../bench/surroundings.ts");
  threadsNotes(flags.device, flags.threads).forEach(noteTo(context));
  using interrupt = terminal.interrupt();
  using bar = new ProgressBar(terminal);
  const folder = noiseFolder(context.env);
  const comparison = await runCompare({
    base: flags.base,
    head: flags.head,
    settings: await settingsOf(flags),
    argv: Deno.args,
    tool: await toolIdentity(),
    env: context.env,
    noiseFolder: folder,
    ...(flags.json === undefined || flags.json === "-" ? {} : { json: flags.json }),
    around: machineSurroundings(flags.device, interrupt.signal),
    tell: (line) => terminal.err(line + "\n"),
    onProgress: (p) => bar.update({ stage: stageOf(p), done: p.pairs, total: p.of }),
  });
  bar[Symbol.dispose]();
  if (flags.json === "-") terminal.out(JSON.stringify(comparison, null, 2) + "\n");
  await print(context, comparison, flags.json === "-");
  const profile = comparison.settings.aa ? profileOf(comparison) : null;
  if (profile) terminal.err(`noise profile: ${await keepNoise(folder, profile)}\n`);
  context.exitCode = await exitCodeOf(comparison, flags.onInconclusive);
}

function stageOf({ row, phase, pairs, of }: CompareProgress): string {
  return phase === "pairs" ? `${row}: ${pairs} of ${of} pairs` : `${row} ${phase}`.trim();
}

async function settingsOf(flags: Flags): Promise<CompareSettings> {
  const { ANCHOR_LIMIT, REJECTED_MAX } = await import("../bench/pairs.ts");
  const { lookSchedule } = await import("../bench/verdict.ts");
  const minPairs = Math.min(flags.minPairs, flags.pairs);
  return {
    model: flags.model,
    synthetic: flags.synthetic
      ? { seed: flags.seed, layers: null, experts: null, vocab: null, routing: "model" }
      : null,
    device: flags.device,
    threads: flags.threads ?? null,
    kv: flags.kv,
    quantize: flags.quantize ?? null,
    plan: { ...flags.plan },
    suite: flags.suite,
    aa: flags.aa ?? false,
    pairs: flags.pairs,
    min_pairs: minPairs,
    // Noise is measured in full: stopping early would pick the calm sessions.
    looks: flags.aa ? [flags.pairs] : lookSchedule(minPairs, flags.pairs),
    max_seconds: flags.maxSeconds,
    tolerance: flags.tolerance,
    confidence: flags.confidence,
    order: flags.order,
    resamples: 10_000,
    seed: flags.seed,
    anchor_limit: ANCHOR_LIMIT,
    rejected_max: REJECTED_MAX,
    output_change: flags.allowOutputChange ?? null,
  };
}

/** One line a row, worst first; on standard error where standard output is JSON. */
async function print(context: Context, comparison: Comparison, jsonOnOut: boolean): Promise<void> {
  const { bySeverity, OUTCOME_WORDS, rowLine, rowNotes } = await import("../bench/verdict_line.ts");
  const { terminal } = context;
  const paint = jsonOnOut ? context.errPaint : context.outPaint;
  const lines = bySeverity(comparison.rows).map((row) => {
    const word = OUTCOME_WORDS[row.outcome];
    const colour = row.outcome === "pass"
      ? "green"
      : row.outcome === "inconclusive"
      ? "yellow"
      : "red";
    return paint(colour, word) + rowLine(row, comparison.settings).slice(word.length);
  });
  const { outputs, settings } = comparison;
  if (settings.output_change !== null && outputs && !outputs.equal) {
    lines.push(`output changed, allowed: ${settings.output_change}`);
  }
  lines.push(...comparison.rows.flatMap(rowNotes).map((note) => `  note: ${note}`));
  (jsonOnOut ? terminal.err : terminal.out)(lines.join("\n") + "\n");
}

async function exitCodeOf(
  comparison: Comparison,
  inconclusive: "allow" | "fail",
): Promise<ExitCode> {
  const { comparisonVerdict } = await import("../bench/verdict_line.ts");
  const verdict = comparisonVerdict(comparison);
  return verdict === "inconclusive" && inconclusive === "allow" ? EXIT.ok : EXIT_OF[verdict];
}

export const EXIT_OF = {
  pass: EXIT.ok,
  regression: EXIT.regression,
  errors: EXIT.device,
  output_changed: EXIT.check,
  inconclusive: EXIT.inconclusive,
  environment: EXIT.environment,
  interrupted: EXIT.interrupted,
} as const;
