/** `lapwing export` and `lapwing import`: reports to and from the formats of other tools. */
import { Argument, type Command, Option } from "commander";
import type { Context } from "./context.ts";
import { whole } from "./flags.ts";
import { examples } from "./help.ts";

const TO = [
  "llama-bench",
  "benchstat",
  "github-rates",
  "github-times",
  "bencher",
  "md",
  "csv",
] as const;
const FROM = ["llama-bench", "mlx-lm", "vllm"] as const;

/** Adds both commands to the program. */
export function addConvert(program: Command, context: Context): void {
  program.command("export")
    .description("Print a report in the format of another tool")
    .addArgument(new Argument("<report>", "a report of `lapwing bench`"))
    .addOption(new Option("--to <format>", "which").choices(TO).makeOptionMandatory())
    .addHelpText(
      "after",
      examples([
        ["export report.json --to benchstat > new.txt", "For benchstat old.txt new.txt"],
        ["export report.json --to github-rates > rates.json", "For github-action-benchmark"],
      ]),
    )
    .action((report, flags) => runExport(context, report, flags.to));
  program.command("import")
    .description("Print what another tool measured as a report")
    .addArgument(new Argument("<file>", "what it printed or wrote"))
    .addOption(new Option("--from <tool>", "which").choices(FROM).makeOptionMandatory())
    .option("--model <name>", "what was measured, where the file does not say")
    .option("--prompt <n>", "its prompt tokens, likewise", whole({ min: 1, example: "512" }))
    .option("--gen <n>", "its generated tokens, likewise", whole({ min: 1, example: "128" }))
    .addHelpText(
      "after",
      examples([["import llama.json --from llama-bench", "llama-bench -o json"]]),
    )
    .action((file, flags) => runImport(context, file, flags));
}

async function runExport({ terminal }: Context, path: string, to: typeof TO[number]) {
  const { EXPORTERS, formatNamed } = await import("../bench/formats/formats.ts");
  const { exportable } = await import("../bench/formats/selection.ts");
  const { readReport } = await import("../bench/report_file.ts");
  const report = await readReport(path);
  terminal.out(formatNamed(EXPORTERS, to)(report));
  const { leftOut } = exportable(report);
  if (leftOut > 0) {
    terminal.err(`${leftOut} of ${report.rows.length} rows are left out: not ok, or not checked\n`);
  }
}

interface ImportFlags {
  readonly from: typeof FROM[number];
  readonly model?: string;
  readonly prompt?: number;
  readonly gen?: number;
}

async function runImport({ terminal }: Context, path: string, flags: ImportFlags) {
  const { formatNamed, IMPORTERS } = await import("../bench/formats/formats.ts");
  const { reportText } = await import("../bench/report_file.ts");
  const { readText } = await import("../bench/json_file.ts");
  const { from, model, prompt, gen } = flags;
  const report = formatNamed(IMPORTERS, from)(await readText(path), path, { model, prompt, gen });
  terminal.out(reportText(report));
}
