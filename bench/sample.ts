/**
 * One cell's samples: warm-up first, then runs from the same filled state, each with its times and the
 * digest of what it computed. Reads the clock around calls; judges nothing.
 */
import { CALL_TOKENS, callTokensOf, DIGEST_TOKENS, tokensOf } from "./grid.ts";
import type { BenchEngine, Clock, EnergyMeter, Work } from "./port.ts";

export interface SampleTimes {
  /** Since the run began. */
  readonly startedNs: number;
  readonly ns: number;
  /** Of the decode calls, in order. */
  readonly callNs: readonly number[];
  /** Of the prompt, where the work has one; its end is the first token. */
  readonly prefillNs: number | null;
  readonly digest: string;
}

export interface Samples {
  readonly warmupNs: readonly number[];
  readonly warmupTokens: number;
  /** Tokens of each decode call of a sample. */
  readonly calls: readonly number[];
  readonly times: readonly SampleTimes[];
  /** Over exactly the timed stretches; null without a meter, or where it was lost meanwhile. */
  readonly joules: number | null;
}

export interface SampleOptions {
  readonly clock: Clock;
  /** The clock when the run began. */
  readonly origin: bigint;
  readonly repetitions: number;
  /** More samples are taken until they last so long together. */
  readonly minTimeNs: number;
  readonly warmup: number;
  readonly prefillRows: number;
  /** One call a token, so that each has its own time. */
  readonly tokenTimes: boolean;
  readonly energy: EnergyMeter | null;
  readonly signal?: AbortSignal;
  readonly onSample?: (done: number, of: number) => void;
}

/** A prompt beyond this is warmed up by its beginning. */
const WARM_PROMPT_MAX = 4096;
const WARM_GEN_MAX = 128;
/** No grid needs more, and a clock that stands still must not loop for ever. */
const SAMPLES_MAX = 1000;

/** Calls of a decode: of so many tokens, the first and the last too, so that both ends have times of their own. */
export function callsOf(tokens: number, most = CALL_TOKENS): number[] {
  if (tokens <= most) return tokens > 0 ? [tokens] : [];
  const calls = [most];
  const last = tokens >= 2 * most ? most : tokens - most;
  for (let left = tokens - most - last; left > 0; left -= most) calls.push(Math.min(most, left));
  return [...calls, last];
}

/** Decode steps of a piece of work: behind a prompt the first token comes from the prompt itself. */
export function decodeSteps(work: Work): number {
  if (work.kind === "decode") return work.gen;
  return work.kind === "prompt_decode" ? work.gen - 1 : 0;
}

export async function takeSamples(
  engine: BenchEngine,
  work: Work,
  options: SampleOptions,
): Promise<Samples> {
  const { warmup, tokenTimes, energy, signal } = options;
  const most = callTokensOf(work, tokenTimes);
  const calls = callsOf(decodeSteps(work), most);
  const warm = warmWork(work, options.prefillRows);
  const warmCalls = callsOf(decodeSteps(warm), most);
  const warmupNs: number[] = [];
  for (let i = 0; i < Math.max(1, warmup); i++) {
    warmupNs.push((await runOnce(engine, warm, warmCalls, options)).ns);
    if (i === 0) engine.prepare(work, calls);
  }
  const times: SampleTimes[] = [];
  let total = 0, joules: number | null = energy ? 0 : null;
  const enough = () =>
    times.length >= SAMPLES_MAX ||
    (times.length >= options.repetitions && total >= options.minTimeNs);
  while (!enough()) {
    signal?.throwIfAborted();
    const one = await runOnce(engine, work, calls, options);
    times.push(one);
    total += one.ns;
    joules = joules === null || one.joules === null ? null : joules + one.joules;
    options.onSample?.(times.length, Math.max(options.repetitions, times.length));
  }
  return {
    warmupNs,
    warmupTokens: tokensOf(warm),
    calls,
    times: times.map(({ startedNs, ns, callNs, prefillNs, digest }) => ({
      startedNs,
      ns,
      callNs,
      prefillNs,
      digest,
    })),
    joules,
  };
}

function warmWork(work: Work, prefillRows: number): Work {
  const prompt = (n: number) => n <= WARM_PROMPT_MAX ? n : Math.min(n, 2 * prefillRows);
  const gen = (n: number) => Math.min(n, WARM_GEN_MAX);
  if (work.kind === "prefill") return { ...work, prompt: prompt(work.prompt) };
  if (work.kind === "decode") return { ...work, gen: gen(work.gen) };
  if (work.kind !== "prompt_decode") return work;
  return { ...work, prompt: prompt(work.prompt), gen: gen(work.gen) };
}

async function runOnce(
  engine: BenchEngine,
  work: Work,
  calls: readonly number[],
  { clock, origin, energy, signal }: SampleOptions,
): Promise<SampleTimes & { readonly joules: number | null }> {
  await engine.restore();
  const before = energy ? await energy.joules() : null;
  const from = clock.now();
  if (work.kind === "prefill" || work.kind === "prompt_decode") {
    await engine.prefill(work.prompt, signal);
  } else if (work.kind === "verify") await engine.verify(work.rows);
  let last = clock.now();
  const prompted = Number(last - from), callNs: number[] = [];
  if (work.kind === "decode") last = from;
  for (const tokens of calls) {
    await engine.decode(tokens);
    const now = clock.now();
    callNs.push(Number(now - last));
    last = now;
  }
  const ns = Number(last - from);
  const after = energy ? await energy.joules() : null;
  const joules = before === null || after === null ? null : after - before;
  if (work.kind === "prefill" || work.kind === "verify") {
    if (work.kind === "prefill" && work.prompt > WARM_PROMPT_MAX) engine.keepAhead();
    await engine.decode(DIGEST_TOKENS - 1);
  }
  const { digest } = await engine.produced();
  const prefillNs = "prompt" in work ? prompted : null;
  return { startedNs: Number(from - origin), ns, callNs, prefillNs, digest, joules };
}
