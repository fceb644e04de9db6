/** A spec of nothing, to which a test adds what it measures. */
import type { Spec } from "../../bench/report.ts";

export function specWith(given: Partial<Spec>): Spec {
  return {
    model: "fake",
    synthetic: null,
    device: "cpu",
    threads: [2],
    kv: ["f16"],
    prefill_rows: [512],
    quantize: null,
    plan: {},
    n_prompt: [],
    n_gen: [],
    call_tokens: [32],
    n_depth: [0],
    prompt_gen: [],
    verify_rows: [],
    verify_sweep: null,
    long: null,
    load: false,
    perplexity: null,
    tokens: "random",
    text_file: null,
    seed: 0,
    repetitions: 5,
    min_time_ns: 0,
    warmup: 1,
    token_times: false,
    ...given,
  };
}
