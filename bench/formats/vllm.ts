/** Results of `vllm bench latency` and `vllm bench serve` as a report. */
import * as v from "valibot";
import { UserError } from "../../engine/errors.ts";
import { shorten } from "../../engine/json.ts";
import type { Report } from "../report.ts";
import { importedReport, type ImportedRow } from "./imported.ts";

const seconds = v.pipe(v.number(), v.minValue(0));
const latencySchema = v.looseObject({ latencies: v.pipe(v.array(seconds), v.minLength(1)) });
const serveSchema = v.looseObject({
  model_id: v.string(),
  date: v.optional(v.string()),
  total_input_tokens: v.number(),
  total_output_tokens: v.number(),
  completed: v.pipe(v.number(), v.minValue(1)),
  mean_ttft_ms: seconds,
  mean_tpot_ms: seconds,
  median_ttft_ms: v.optional(seconds),
  median_tpot_ms: v.optional(seconds),
  max_concurrency: v.nullish(v.number()),
});

export interface VllmOptions {
  /** Needed for `latency`, whose file names neither. */
  readonly model?: string;
  readonly prompt?: number;
  readonly gen?: number;
}

/** Throws UserError. */
export function fromVllm(text: string, where: string, options: VllmOptions): Report {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new UserError(`${where} is not JSON: expected a result of vllm bench.`);
  }
  const serve = v.safeParse(serveSchema, value);
  if (serve.success) return fromServe(serve.output);
  const latency = v.safeParse(latencySchema, value);
  if (latency.success) return fromLatency(latency.output.latencies, where, options);
  const issue = serve.issues[0];
  throw new UserError(
    `${where}: neither a latency nor a serve result: ${v.getDotPath(issue)}: ${
      shorten(issue.message)
    }`,
  );
}

/** Whole requests: a prompt and the tokens behind it in one time. */
function fromLatency(latencies: readonly number[], where: string, o: VllmOptions): Report {
  const { model = "unknown", prompt, gen } = o;
  if (!prompt || !gen) {
    throw new UserError(`${where} does not say how many tokens: give --prompt and --gen.`);
  }
  const row: ImportedRow = {
    kind: "prompt_decode",
    prompt,
    gen,
    depth: 0,
    tokens: prompt + gen,
    samplesNs: latencies.map((s) => Math.round(s * 1e9)),
    tokenSource: "random",
  };
  return importedReport({
    from: "vllm",
    version: "bench latency",
    model,
    backend: "cuda",
    rows: [row],
  });
}

/** Medians over requests where the file has them: one sample each. */
function fromServe(r: v.InferOutput<typeof serveSchema>): Report {
  const prompt = Math.round(r.total_input_tokens / r.completed);
  const gen = Math.max(2, Math.round(r.total_output_tokens / r.completed));
  const ttftNs = Math.round((r.median_ttft_ms ?? r.mean_ttft_ms) * 1e6);
  const tpotNs = (r.median_tpot_ms ?? r.mean_tpot_ms) * 1e6;
  const shared = { tokenSource: "text", depth: 0 } as const;
  const rows: ImportedRow[] = [
    { ...shared, kind: "prefill", prompt, gen: 0, tokens: prompt, samplesNs: [ttftNs], ttftNs },
    {
      ...shared,
      kind: "decode",
      prompt: 0,
      gen,
      depth: prompt,
      tokens: gen - 1,
      samplesNs: [Math.round(tpotNs * (gen - 1))],
    },
  ];
  return importedReport({
    from: "vllm",
    version: "bench serve",
    startedAt: r.date,
    model: r.model_id,
    backend: "cuda",
    rows,
  });
}
