/**
 * Samples of speculative rounds: one width with forced outcomes in turn, and runs of rounds in turn with
 * serial decode of the same tokens. Reads the clock around calls; judges nothing.
 */
import { ROUND_TOKENS, ROUND_WARM_TOKENS } from "./grid.ts";
import type {
  BenchEngine,
  Chain,
  ForcedPlay,
  HitRates,
  RoundWork,
  RunOfRounds,
  SpeculateWork,
} from "./port.ts";
import type { Rounds } from "./report.ts";
import { callsOf, type SampleOptions, type Samples, type SampleTimes } from "./sample.ts";
import { type BesideTimes, forcedPlays, outcomes, turnOf } from "./spec_forecast.ts";
import { mean } from "./stats.ts";

/** Short plays need more samples than others for the same certainty. */
const ROUNDS_MIN = 25;
/** Runs are disturbed one by one, so the middle of several is taken; a multiple of their orders. */
const RUNS_MIN = 24;
/** Slow plays need fewer: more samples than asked for only within so long. */
const ROUNDS_NS = 4e9;
const RUNS_NS = 1e10;
/** Serial tokens of one call beside a round: about as long as a round, so that both are disturbed as often. */
const STEP_TOKENS = 4;

/** Rounds of one width that are played, those that only warm up included, where no head drafts. */
export function roundsPlayed(rows: number, repetitions: number): number {
  const forms = outcomes(rows).length;
  return Math.max(ROUNDS_MIN, repetitions) + (forms - 1) * repetitions + forms;
}

export interface RoundSamples {
  /** Of rounds that accept nothing. */
  readonly samples: Samples;
  readonly rounds: Rounds;
  /** Of the tokens that serial decode makes. */
  readonly serialDigest: string;
  /** Whether every outcome gave those tokens. */
  readonly equal: boolean;
}

export async function takeRounds(
  engine: BenchEngine,
  { rows }: RoundWork,
  o: SampleOptions,
): Promise<RoundSamples> {
  const { digest: serialDigest } = await engine.serial();
  const accepted = outcomes(rows), drafts = engine.draftHead && rows > 1 ? rows - 1 : 0;
  const count = Math.max(ROUNDS_MIN, o.repetitions);
  // What keeping more drafts costs is told by the records that commit: those rounds only have to be right.
  const forms = [
    ...accepted.map((k) => ({ accepted: k, drafts: 0, count: k === 0 ? count : o.repetitions })),
    ...drafts > 0 ? [{ accepted: 0, drafts, count }] : [],
  ];
  const one = (form: typeof forms[number]) => oneRound(engine, rows, form, o);
  const warmupNs = [];
  for (const form of forms) warmupNs.push((await one(form)).ns);
  const times: RoundTimes[][] = forms.map(() => []), began = o.clock.now();
  const early = () => Number(o.clock.now() - began) > ROUNDS_NS;
  for (let i = 0; i < count && (i < o.repetitions || !early()); i++) {
    o.signal?.throwIfAborted();
    for (const [at, form] of forms.entries()) {
      if (i < form.count) times[at].push(await one(form));
    }
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
  /** The plays of forced outcome, and what they took beside each run. */
  readonly plays: readonly ForcedPlay[];
  readonly beside: readonly BesideTimes[];
  readonly hits: HitRates;
  readonly equal: boolean;
}

/**
 * Runs, serial decode of the same tokens, forced plays along them and chains of the head, in turn: a busy moment
 * meets all of them, and each follows each other one.
 */
export async function takeRuns(
  engine: BenchEngine,
  work: SpeculateWork,
  o: SampleOptions,
): Promise<RunSamples> {
  const { clock } = o, { gen, drafts } = work, engineRuns = await engine.runs(work);
  const run = async () => {
    const startedNs = Number(clock.now() - o.origin);
    return { ...await engineRuns.run(clock), startedNs };
  };
  const warm = await run(), asked = warm.rounds + warm.serial;
  const head = work.drafter === "mtp", plays = forcedPlays(warm.lengths, head ? drafts : 0);
  const turn = turnOf(plays, warm.lengths), forced = turn.map((at) => plays[at]);
  const walk = () => engineRuns.walk(forced, clock);
  await walk();
  const runs: Awaited<ReturnType<typeof run>>[] = [], serial: SerialRun[] = [];
  const walks: number[][] = [], chains: Chain[] = [], proposeNs: number[] = [];
  const turns = [
    async () => void serial.push(await serialRun(engine, work, o)),
    async () => void runs.push(await run()),
    async () => void walks.push(await walk()),
    ...head ? [async () => void chains.push(await engineRuns.chain(clock))] : [],
  ];
  const orders = balancedOrders(turns.length);
  const count = Math.max(RUNS_MIN, o.repetitions), began = clock.now();
  const early = () => Number(clock.now() - began) > RUNS_NS;
  for (let i = 0; i < count && (i < o.repetitions || !early()); i++) {
    o.signal?.throwIfAborted();
    for (const at of orders[i % orders.length]) await turns[at]();
    proposeNs.push(engineRuns.proposeNs(asked, clock));
    o.onSample?.(i + 1, count);
  }
  return {
    samples: {
      warmupNs: [warm.ns],
      warmupTokens: gen,
      calls: [],
      times: runs.map(({ startedNs, ns, digest }) => (
        { startedNs, ns, callNs: [], prefillNs: null, digest }
      )),
      joules: null,
    },
    runs,
    serialNs: serial.map((s) => s.ns),
    plays,
    beside: walks.map((times, i) => ({
      playNs: plays.map((_, at) => {
        const ns = times.filter((_, nth) => turn[nth % turn.length] === at);
        return ns.length > 0 ? mean(ns) : null;
      }),
      proposeNs: proposeNs[i],
      chain: chains[i] ?? null,
    })),
    hits: engineRuns.hitRates(),
    equal: [warm, ...runs, ...serial].every((r) => r.digest === engineRuns.serial.digest),
  };
}

/**
 * Orders in which each of `n` things follows each other one equally often: what was done last leaves the
 * machine's scheduler and caches in a state of its own.
 */
export function balancedOrders(n: number): number[][] {
  // 0, 1, n-1, 2, n-2, ... and its rotations; for an odd n also backwards.
  const first = Array.from({ length: n }, (_, i) => i % 2 === 1 ? (i + 1) / 2 : (n - i / 2) % n);
  const rotated = first.map((_, by) => first.map((place) => (place + by) % n));
  return n % 2 === 0 ? rotated : [...rotated, ...rotated.map((order) => order.toReversed())];
}

interface SerialRun {
  readonly ns: number;
  readonly digest: string;
}

async function serialRun(
  engine: BenchEngine,
  { gen, temperature }: SpeculateWork,
  { clock }: SampleOptions,
): Promise<SerialRun> {
  await engine.rewind(temperature);
  const from = clock.now();
  for (const tokens of callsOf(gen)) await engine.decode(tokens);
  const ns = Number(clock.now() - from);
  const { digest } = await engine.produced();
  return { ns, digest };
}
