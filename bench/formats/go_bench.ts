/** Reports as Go benchmark text, one line a sample: what benchstat reads and compares. */
import { sampleRates } from "../figures.ts";
import type { Report, Row } from "../report.ts";
import { deviceName, exportable, modelName, word } from "./selection.ts";

const GOARCH: Readonly<Record<string, string>> = { x86_64: "amd64", aarch64: "arm64" };

export function toGoBench(report: Report): string {
  const { env, tool, model } = report, line = (text: string) => text.replace(/\s+/g, " ").trim();
  return [
    `goos: ${env.os}`,
    `goarch: ${GOARCH[Deno.build.arch] ?? Deno.build.arch}`,
    line(`cpu: ${deviceName(report)}`),
    line(`commit: ${tool.commit ?? "unknown"}${tool.dirty ? "-dirty" : ""}`),
    line(`weights: ${model?.weights_sha256_16 ?? "unknown"}`),
    "Unit token/sec better=higher",
    "Unit ns/token better=lower",
    ...exportable(report).rows.flatMap((row) => linesOf(report, row)),
    "",
  ].join("\n");
}

function linesOf(report: Report, row: Row): string[] {
  const { params } = row;
  const keys = [
    `name=${word(modelName(report))}`,
    `step=${row.kind}`,
    ...(params.n_prompt ? [`prompt=${params.n_prompt}`] : []),
    ...(params.n_gen ? [`gen=${params.n_gen}`] : []),
    ...(params.rows ? [`rows=${params.rows}`] : []),
    `kv=${params.kv_type}`,
    `depth=${params.n_depth}`,
  ];
  const name = `BenchmarkModel/${keys.join("/")}`;
  const rates = sampleRates(row);
  return row.samples_ns.map((ns, i) => {
    if (rates[i] === undefined) return `${name} 1 ${ns} ns/op`;
    return `${name} 1 ${(1e9 / rates[i]).toFixed(2)} ns/token ${rates[i].toFixed(4)} token/sec`;
  });
}
