/**
 * Reports for github-action-benchmark: rates as `customBiggerIsBetter`, times to the first token as
 * `customSmallerIsBetter`. It matches results by name alone, so names hold model, work and device.
 */
import type { Report, Row } from "../report.ts";
import { deviceName, exportable, modelName } from "./selection.ts";

interface Result {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly range?: string;
  readonly extra?: string;
}

export function toGithubRates(report: Report): string {
  return print(exportable(report).rows.flatMap((row) => rateOf(report, row)));
}

export function toGithubTimes(report: Report): string {
  return print(
    exportable(report).rows.flatMap((row) =>
      row.ttft_ns === null ? [] : [{
        name: `${nameOf(report, row)} time to first token`,
        value: row.ttft_ns / 1e6,
        unit: "ms",
        extra: `n=${row.samples_ns.length} median`,
      }]
    ),
  );
}

function print(results: readonly Result[]): string {
  return JSON.stringify(results, null, 2) + "\n";
}

function nameOf(report: Report, row: Row): string {
  return `${modelName(report)} ${row.id} [${deviceName(report)}]`;
}

function rateOf(report: Report, row: Row): Result[] {
  const { stats, limit } = row;
  // A value of 0 would make its ratio infinite.
  if (!stats?.median_tps) return [];
  const ci = stats.ci95, share = limit?.pct_of_measured_bw;
  const extra = [
    `n=${stats.n} median`,
    ...(ci ? [`CI95 ${ci[0].toFixed(2)}..${ci[1].toFixed(2)}`] : []),
    ...(typeof share === "number" ? [`limit ${share.toFixed(0)}%`] : []),
  ];
  return [{
    name: nameOf(report, row),
    value: stats.median_tps,
    unit: "tok/s",
    ...(ci ? { range: `± ${((ci[1] - ci[0]) / 2).toFixed(2)}` } : {}),
    extra: extra.join("; "),
  }];
}
