/** `lapwing plot`: report files in, picture files out. The drawing is loaded when it is asked for. */
import { type Command, InvalidArgumentError, Option } from "commander";
import {
  PLOT_FORMATS,
  PLOT_KINDS,
  PLOT_THEMES,
  type PlotFormat,
  type PlotKind,
  type PlotTheme,
} from "../bench/plot/picture.ts";
import type { Context } from "./context.ts";
import { examples } from "./help.ts";

interface Flags {
  readonly out: string;
  readonly format: readonly PlotFormat[];
  readonly kind: readonly PlotKind[];
  readonly theme: PlotTheme;
}

const EXAMPLES = examples([
  ["plot report.json", "Every picture that a report has the numbers for, and a page with all"],
  ["plot before.json after.json --kind decode,prefill --format png", "Two runs in one picture"],
  ["plot baselines/*.json --kind history --out history", "The same rows from run to run"],
]);

const KINDS_HELP = `
Kinds: decode (rate over context depth), prefill (rate over prompt length), verify (cost of T tokens
in one play), samples (drift within a run), history (from run to run). Rows that failed, or whose
check failed, are not drawn; pictures and standard error say which.`;

/** Adds the command to the program. */
export function addPlot(program: Command, context: Context): void {
  program.command("plot")
    .description("Draw reports as SVG, PNG and one HTML page")
    .argument("<report...>", "reports of lapwing bench, and baselines of lapwing gate")
    .option("--out <folder>", "where the pictures go", "plots")
    .addOption(
      new Option("--format <list>", "file formats, with commas")
        .choices(PLOT_FORMATS).argParser(listOf(PLOT_FORMATS)).default(
          PLOT_FORMATS,
          PLOT_FORMATS.join(","),
        ),
    )
    .addOption(
      new Option("--kind <list>", "kinds of pictures, with commas")
        .choices(PLOT_KINDS).argParser(listOf(PLOT_KINDS)).default(PLOT_KINDS, "all"),
    )
    .addOption(
      new Option("--theme <theme>", "of SVG and PNG; the page follows its reader")
        .choices(PLOT_THEMES).default("light" as const),
    )
    .addHelpText("after", KINDS_HELP + "\n" + EXAMPLES)
    .action((reports, flags) => runPlot(context, reports, flags));
}

/** Parser of a list of known words; they keep the order in which they are known. */
function listOf<T extends string>(known: readonly T[]): (text: string) => readonly T[] {
  return (text) => {
    const words = text.split(",").map((w) => w.trim());
    if (words.every((w) => (known as readonly string[]).includes(w))) {
      return known.filter((k) => words.includes(k));
    }
    throw new InvalidArgumentError(`Expected one or more of ${known.join(",")}.`);
  };
}

async function runPlot(context: Context, reports: readonly string[], flags: Flags) {
  const { writePlots } = await import("../bench/plot/output.ts");
  const { files, empty, omitted } = await writePlots({
    reports,
    out: flags.out,
    formats: flags.format,
    kinds: flags.kind,
    theme: flags.theme,
  });
  const { terminal, errPaint } = context;
  for (const { kind, why } of empty) {
    terminal.err(errPaint("dim", `no ${kind} picture: ${why}`) + "\n");
  }
  for (const { row, source, why } of omitted) {
    terminal.err(`${errPaint("yellow", "not drawn:")} ${row} of ${source}: ${why}\n`);
  }
  terminal.out(files.map((f) => `${f}\n`).join(""));
}
