/** `lapwing bench`: flags to a spec, a report to a table or a file. Measures nothing itself. */
import type { Command } from "commander";
import type { Report, ReportHead, Row } from "../bench/report.ts";
import type { ReportSink } from "../bench/report_file.ts";
import type { SweepProgress } from "../bench/sweep.ts";
import { UserError } from "../engine/errors.ts";
import { counted } from "../engine/wording.ts";
import { addBenchFlags, type BenchFlags, specOf } from "./bench_flags.ts";
import { reportTable } from "./bench_table.ts";
import type { Context } from "./context.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { examples } from "./help.ts";
import { noteTo, threadsNotes } from "./notes.ts";
import { duration } from "./print.ts";
import { ProgressBar } from "./progress.ts";

const EXAMPLES = examples([
  ["bench -m tiny", "The built-in model"],
  ["bench -m qwen35-a3b --synthetic --json report.json", "An architecture without its weights"],
  ["bench -p 512 -n 128 -d 0-32768+8192 -r 10", "How rates fall with the context"],
  ["bench --long --json long.json", "A prompt of 32768 tokens, then decode"],
  ["bench --resume report.json", "Go on where a run was interrupted"],
]);

/** Adds the command to the program. */
export function addBench(program: Command, context: Context): void {
  addBenchFlags(
    program.command("bench")
      .description("Measure prefill and decode against what the hardware allows"),
  ).addHelpText("after", EXAMPLES)
    .action((flags, command) => runBenchCommand(context, flags as unknown as BenchFlags, command));
}

/** What may be said beside --resume: where to write, not what to measure. */
const RESUME_ALLOWS = ["resume", "json", "output", "library"];

async function runBenchCommand(context: Context, flags: BenchFlags, command: Command) {
  const { terminal } = context;
  const { runBench } = await import("../bench/run.ts");
  const { OUTPUTS } = await import("../bench/formats/formats.ts");
  const { readReport } = await import("../bench/report_file.ts");
  const resume = flags.resume === undefined ? undefined : await readReport(flags.resume);
  if (resume) refuseOtherFlags(command);
  terminal.reserveOut();
  using interrupt = terminal.interrupt();
  using progress = new BenchProgress(context);
  await using files = new AsyncDisposableStack();
  const path = flags.json === "-" ? undefined : flags.json ?? flags.resume;
  const spec = resume?.spec ?? specOf(flags), note = noteTo(context);
  for (const line of threadsNotes(spec.device, Math.max(...spec.threads))) note(line);
  const result = await runBench({
    spec,
    argv: Deno.args,
    env: context.env,
    library: flags.library,
    resume,
    signal: interrupt.signal,
    onLoad: (p) => progress.loading(p),
    onNote: (line) => {
      progress.end();
      note(line);
    },
    onProgress: (p) => progress.update(p),
    sinks: (head, kept) => openSinks(context, flags, path, head, kept, files),
  });
  progress.end();
  const { report, interrupted } = result;
  const toStdout = flags.json === "-" ? "json" : flags.output;
  if (toStdout !== undefined && toStdout !== "jsonl") terminal.out(OUTPUTS[toStdout](report));
  const table = reportTable(report, toStdout === undefined ? context.outPaint : context.errPaint);
  if (toStdout === undefined) terminal.out(table);
  else terminal.err(table);
  if (path !== undefined) terminal.err(`report: ${path}\n`);
  tellLeftOut(context, report, toStdout);
  if (interrupted) {
    const again = path === undefined ? "" : `: go on with \`lapwing bench --resume ${path}\``;
    terminal.err(`interrupted after ${counted(report.rows.length, "row")}${again}\n`);
  }
  context.exitCode = interrupted ? EXIT.interrupted : exitCodeOf(report);
}

function refuseOtherFlags(command: Command): void {
  const given = command.options.map((o) => o.attributeName())
    .filter((name) =>
      command.getOptionValueSource(name) === "cli" && !RESUME_ALLOWS.includes(name)
    );
  if (given.length === 0) return;
  const flags = given.map((name) => `--${name.replace(/[A-Z]/g, (c) => "-" + c.toLowerCase())}`);
  throw new UserError(
    `--resume measures what its report says: leave out ${flags.join(", ")}, or begin a new report.`,
  );
}

async function openSinks(
  { terminal }: Context,
  flags: BenchFlags,
  path: string | undefined,
  head: ReportHead,
  kept: readonly Row[],
  files: AsyncDisposableStack,
): Promise<ReportSink[]> {
  const { DocumentSink, LinesFile, LinesSink, reportLines } = await import(
    "../bench/report_file.ts"
  );
  const sinks: ReportSink[] = [];
  if (path?.endsWith(".jsonl")) {
    const file = files.use(await LinesFile.begin(path, head, kept));
    sinks.push(new LinesSink((line) => file.write(line), kept));
  } else if (path !== undefined) sinks.push(new DocumentSink(path, head));
  if (flags.output === "jsonl" && flags.json !== "-") {
    terminal.out(reportLines(head, kept));
    sinks.push(
      new LinesSink((line) => {
        terminal.out(line);
        return Promise.resolve();
      }, kept),
    );
  }
  return sinks;
}

/** Tables for other programs hold only rows that may be compared. */
function tellLeftOut({ terminal }: Context, report: Report, format: string | undefined): void {
  if (format !== "md" && format !== "csv") return;
  const left = report.rows.filter((row) => row.status !== "ok" || !row.check.ok).length;
  if (left > 0) terminal.err(`${left} of ${report.rows.length} rows are left out: they failed\n`);
}

/** Rows that errored weigh more than rows whose check failed. */
export function exitCodeOf(report: Report): ExitCode {
  if (report.rows.some((row) => row.status === "error")) return EXIT.device;
  if (report.rows.some((row) => row.status === "ok" && !row.check.ok)) return EXIT.check;
  return EXIT.ok;
}

/** A bar on a terminal, a line a row elsewhere. */
class BenchProgress implements Disposable {
  readonly #bar: ProgressBar;
  #told = 0;

  constructor(readonly context: Context) {
    this.#bar = new ProgressBar(context.terminal);
  }

  loading(p: { stage: string; done: number; total: number }): void {
    this.#bar.update(p);
  }

  update({ cell, stage, done, total, remainingNs }: SweepProgress): void {
    const left = remainingNs === null || done === total ? "" : `, ${duration(remainingNs)} left`;
    this.#bar.update({ stage: `${cell} ${stage}${left}`, done, total });
    if (stage !== "done" || done === this.#told || this.context.terminal.errIsTty) return;
    this.#told = done;
    this.context.terminal.err(`${done} of ${total}: ${cell}${left}\n`);
  }

  end(): void {
    this.#bar[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.end();
  }
}
