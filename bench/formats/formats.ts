/** The formats by name: what a report can become, and what can become a report. */
import { UserError } from "../../engine/errors.ts";
import type { Report } from "../report.ts";
import { reportLines, reportText } from "../report_file.ts";
import { toBencher } from "./bencher.ts";
import { toGithubRates, toGithubTimes } from "./github_action.ts";
import { toGoBench } from "./go_bench.ts";
import { fromLlamaBench, toLlamaBench } from "./llama_bench.ts";
import { fromMlxLm } from "./mlx_lm.ts";
import { toCsv, toMarkdown } from "./tables.ts";
import { fromVllm } from "./vllm.ts";

export const EXPORTERS: Readonly<Record<string, (report: Report) => string>> = {
  "llama-bench": toLlamaBench,
  benchstat: toGoBench,
  "github-rates": toGithubRates,
  "github-times": toGithubTimes,
  bencher: toBencher,
  md: toMarkdown,
  csv: toCsv,
};

/** What `bench` itself can print: the whole report, or a table of it. */
export const OUTPUTS: Readonly<Record<string, (report: Report) => string>> = {
  json: reportText,
  jsonl: (report) => {
    const { rows, gate: _, ...head } = report;
    return reportLines(head, rows);
  },
  md: toMarkdown,
  csv: toCsv,
};

export interface ImportOptions {
  readonly model?: string;
  readonly prompt?: number;
  readonly gen?: number;
}

export const IMPORTERS: Readonly<
  Record<string, (text: string, where: string, options: ImportOptions) => Report>
> = {
  "llama-bench": fromLlamaBench,
  "mlx-lm": (text, where, { model = "unknown", prompt = 512, gen = 1024 }) =>
    fromMlxLm(text, where, { model, prompt, gen }),
  vllm: fromVllm,
};

/** One of a table's entries by name. Throws UserError. */
export function formatNamed<T>(table: Readonly<Record<string, T>>, name: string): T {
  if (Object.hasOwn(table, name)) return table[name];
  throw new UserError(`Unknown format ${name}: there is ${Object.keys(table).join(", ")}.`);
}
