/**
 * Samples of speculative rounds: one width with forced outcomes in turn, and runs of rounds in turn with
 * serial decode of the same tokens. Reads the clock around calls; judges nothing.
 */
import { ROUND_TOKENS, ROUND_WARM_TOKENS } from "./grid.ts";
import type { BenchEngine, RoundWork, RunOfRounds, SpeculateWork } from "./port.ts";
import type { Rounds } from "./report.ts";
import { callsOf, type SampleOptions, type Samples, type SampleTimes } from "./sample.ts";

/** Short plays need more samples than others for the same certainty. */
const ROUNDS_MIN = 25;
/** Slow plays need fewer: more samples than asked for only within so long. */
const ROUNDS_NS = 4e9;
/** Serial tokens of one call beside a round: about as long as a round, so that both are disturbed as often. */
const STEP_TOKENS = 4;

export interface RoundSamples {
  /** Of rounds that accept nothing. */
  readonly samples: Samples;
  readonly rounds: Rounds;
  /** Of the tokens that serial decode makes. */
  readonly serialDigest: string;
  /** Whether every outcome gave those tokens. */
  readonly equal: boolean;
}

/** Drafts accepted: none, half, all. */
export function outcomes(rows: number): number[] {
  return [...new Set([0, (rows - 1) >> 1, rows - 1])];
}

export async function takeRounds(
  engine: BenchEngine,
  { rows }: RoundWork,
  o: SampleOptions,
): Promise<RoundSamples> {
  const { digest: serialDigest } = await engine.serial();
  const accepted = outcomes(rows), drafts = engine.draftHead && rows > 1 ? rows - 1 : 0;
  const forms = [
    ...accepted.map((k) => ({ accepted: k, drafts: 0 })),
    ...drafts > 0 ? [{ accepted: 0, drafts }] : [],
  ];
  const one = (form: typeof forms[number]) => oneRound(engine, rows, form, o);
  const warmupNs = [];
  for (const form of forms) warmupNs.push((await one(form)).ns);
  const times: RoundTimes[][] = forms.map(() => []);
  const count = Math.max(ROUNDS_MIN, o.repetitions), began = o.clock.now();
  const early = () => Number(o.clock.now() - began) > ROUNDS_NS;
  for (let i = 0; i < count && (i < o.repetitions || !early()); i++) {
    o.signal?.throwIfAborted();
    for (const [at, form] of forms.entries()) times[at].push(await one(form));
    o.onSample?.(i + 1, count);
  }
  const commitNs: number[] = [];
  for (const k of accepted) commitNs.push(await engine.commitNs(rows, k));
  const ns = times.map((all) => all.map((t) => t.ns));
  return {
    samples: {
      warmupNs,
      warmupTokens: rows,
      calls: [],
      times: times[0].map(({ stepNs: _, ...sample }) => sample),
      joules: null,
    },
    rounds: {
      accepted,
      ns: ns.slice(0, accepted.length),
      step_ns: times[0].flatMap((t) => t.stepNs),
      commit_ns: commitNs,
      draft_ns: drafts > 0 ? ns[accepted.length] : null,
    },
    serialDigest,
    equal: times.flat().every((t) => t.digest === serialDigest),
  };
}

/** A round, and the serial steps behind it, call by call. */
interface RoundTimes extends SampleTimes {
  readonly stepNs: readonly number[];
}

async function oneRound(
  engine: BenchEngine,
  rows: number,
  { accepted, drafts }: { accepted: number; drafts: number },
  { clock, origin }: SampleOptions,
): Promise<RoundTimes> {
  await engine.rewind();
  // Untimed rounds of the same form: caches and threads are as between two rounds of a run.
  for (let i = 0; i < ROUND_WARM_TOKENS; i++) await engine.round(rows, 0, drafts);
  const from = clock.now();
  await engine.round(rows, accepted, drafts);
  const until = clock.now(), left = ROUND_TOKENS - ROUND_WARM_TOKENS - accepted - 1;
  const stepNs: number[] = [];
  for (let done = 0; done < left; done += STEP_TOKENS) {
    const tokens = Math.min(STEP_TOKENS, left - done), began = clock.now();
    await engine.decode(tokens);
    stepNs.push(Math.round(Number(clock.now() - began) / tokens));
  }
  const { digest } = await engine.produced();
  const ns = Number(until - from);
  return { startedNs: Number(from - origin), ns, callNs: [], prefillNs: null, digest, stepNs };
}

export interface RunSamples {
  readonly samples: Samples;
  readonly runs: readonly RunOfRounds[];
  readonly serialNs: readonly number[];
  readonly serialDigest: string;
  readonly equal: boolean;
}

export async function takeRuns(
  engine: BenchEngine,
  work: SpeculateWork,
  o: SampleOptions,
): Promise<RunSamples> {
  const warm = await engine.rewind().then(() => engine.speculate(work, o.clock));
  await serialRun(engine, work.gen, o);
  const times: SampleTimes[] = [], runs: RunOfRounds[] = [], serial = [];
  for (let i = 0; i < o.repetitions; i++) {
    o.signal?.throwIfAborted();
    await engine.rewind();
    const startedNs = Number(o.clock.now() - o.origin);
    const run = await engine.speculate(work, o.clock);
    const { ns, digest } = run;
    runs.push(run);
    times.push({ startedNs, ns, callNs: [], prefillNs: null, digest });
    serial.push(await serialRun(engine, work.gen, o));
    o.onSample?.(i + 1, o.repetitions);
  }
  const serialDigest = serial[0].digest;
  return {
    samples: {
      warmupNs: [warm.ns],
      warmupTokens: work.gen,
      calls: [],
      times,
      joules: null,
    },
    runs,
    serialNs: serial.map((s) => s.ns),
    serialDigest,
    equal: [...runs, ...serial].every((r) => r.digest === serialDigest),
  };
}

async function serialRun(
  engine: BenchEngine,
  gen: number,
  { clock }: SampleOptions,
): Promise<{ ns: number; digest: string }> {
  await engine.rewind();
  const from = clock.now();
  for (const tokens of callsOf(gen)) await engine.decode(tokens);
  const ns = Number(clock.now() - from);
  const { digest } = await engine.produced();
  return { ns, digest };
}
