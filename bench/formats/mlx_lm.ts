/**
 * The text that `mlx_lm.benchmark` prints, as a report. Its generation rate counts one token more than gaps
 * that it timed; with the number of tokens known that is put right.
 */
import { UserError } from "../../engine/errors.ts";
import type { Report } from "../report.ts";
import { importedReport, type ImportedRow } from "./imported.ts";

const TRIAL = /^Trial\s+\d+:\s*(.+)$/gm;
const GB = 1e9;

export interface MlxLmOptions {
  readonly model: string;
  readonly prompt: number;
  readonly gen: number;
}

/** `prompt` and `gen` are what -p and -g were: the text does not say. Throws UserError. */
export function fromMlxLm(text: string, where: string, options: MlxLmOptions): Report {
  const { model, prompt, gen } = options;
  const trials = [...text.matchAll(TRIAL)].map(([, line]) =>
    Object.fromEntries([...line.matchAll(/(\w+)=([\d.]+)/g)].map(([, k, n]) => [k, Number(n)]))
  );
  const good = trials.filter((t) => t.prompt_tps > 0 && t.generation_tps > 0);
  if (good.length === 0) throw new UserError(`${where} has no trials of mlx_lm.benchmark.`);
  if (gen < 2) throw new UserError(`mlx_lm counts ${gen} token: a rate needs at least 2.`);
  const peakBytes = Math.round(Math.max(...good.map((t) => t.peak_memory ?? 0)) * GB);
  const shared = { tokenSource: "random", ...(peakBytes > 0 ? { peakBytes } : {}) } as const;
  const prefill: ImportedRow = {
    ...shared,
    kind: "prefill",
    prompt,
    gen: 0,
    depth: 0,
    tokens: prompt,
    samplesNs: good.map((t) => Math.round(prompt * 1e9 / t.prompt_tps)),
  };
  const decode: ImportedRow = {
    ...shared,
    kind: "decode",
    prompt: 0,
    gen,
    depth: prompt,
    tokens: gen - 1,
    samplesNs: good.map((t) => Math.round(gen * 1e9 / t.generation_tps)),
  };
  return importedReport({
    from: "mlx_lm",
    version: "benchmark",
    model,
    backend: "metal",
    rows: [prefill, decode],
  });
}
