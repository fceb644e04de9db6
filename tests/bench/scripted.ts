/** A machine that exists on paper: scripted rates, drift, disturbances and a clock that only samples move. */
import type { CompareSettings } from "../../bench/compare_report.ts";
import { ANCHOR_LIMIT, REJECTED_MAX } from "../../bench/pairs.ts";
import { normalQuantile, randomFrom } from "../../bench/stats.ts";
import {
  type Disturbance,
  type Sample,
  type Side,
  type Subject,
  SubjectError,
  type Surroundings,
  type Workload,
} from "../../bench/subject.ts";
import { lookSchedule } from "../../bench/verdict.ts";

export type Drift = "none" | "ar" | "thermal";

export interface Script {
  readonly seed?: number;
  /** Relative speed of head: 0.95 is 5 % slower. */
  readonly head?: number;
  /** Relative standard deviation of a sample. */
  readonly noise?: number;
  /** Share of samples that are up to 15 % slower. */
  readonly hits?: number;
  readonly drift?: Drift;
  /** The machine has two speeds, this far apart, and changes between samples. */
  readonly bimodal?: number;
  /** Anchors follow the drift instead of standing still. */
  readonly anchorDrifts?: boolean;
  /** What becomes of the ns of the nth sample. */
  readonly bend?: (ns: number, nth: number, side: Side) => number;
  readonly digest?: (side: Side, nth: number) => string;
  readonly outputs?: (side: Side) => string;
  readonly crash?: (side: Side, nth: number, workload: Workload) => boolean;
  readonly anchor?: (nth: number) => number;
  readonly disturbance?: (nth: number) => Disturbance;
  readonly signal?: AbortSignal;
}

export interface Machine extends Surroundings {
  readonly base: Subject;
  readonly head: Subject;
  /** Sides in the order in which samples ran. */
  readonly log: Side[];
  /** Everything that happened, in order. */
  readonly events: string[];
  seconds(): number;
}

const CALM: Disturbance = { throttled: false, page_outs: 0, gpu_contended: null };
const STEPS_PER_S = 1000;

export function machine(script: Script = {}): Machine {
  const { seed = 1, head = 1, noise = 0.008, hits = 0.05, drift = "none" } = script;
  const random = randomFrom(seed);
  const normal = () => normalQuantile(random() || 0.5);
  const log: Side[] = [], events: string[] = [];
  let now = 0n, ar = 0, samples = 0, anchors = 0, disturbances = 0;
  const speed = () => {
    if (drift === "ar") ar = 0.9 * ar + Math.sqrt(1 - 0.9 ** 2) * 0.03 * normal();
    const heat = drift === "thermal" ? -0.06 * Math.min(1, samples / 60) : 0;
    const mode = script.bimodal && random() < 0.5 ? -script.bimodal : 0;
    return Math.exp(ar + heat + mode);
  };
  const run = (side: Side, steps: number): number => {
    const nth = samples++;
    const hit = random() < hits ? 1 + 0.15 * random() : 1;
    const rate = STEPS_PER_S * speed() * Math.exp(noise * normal()) * (side === "head" ? head : 1);
    const plain = Math.round(1e9 * steps / rate * hit);
    const ns = script.bend ? Math.round(script.bend(plain, nth, side)) : plain;
    now += BigInt(Math.max(0, ns)) + 2_000_000n;
    return ns;
  };
  const subject = (side: Side): Subject => ({
    side,
    outputs: () => Promise.resolve(script.outputs?.(side) ?? "same"),
    prepare: (w) => Promise.resolve(void events.push(`prepare ${side} ${w.id}`)),
    sample(w, repeats): Promise<Sample> {
      if (script.crash?.(side, samples, w)) throw new SubjectError(side, "died of SIGSEGV");
      const digest = script.digest?.(side, samples) ?? "same";
      log.push(side);
      events.push(side);
      return Promise.resolve({
        ns: run(side, w.tokens * repeats),
        steps: w.tokens * repeats,
        digest,
      });
    },
  });
  return {
    base: subject("base"),
    head: subject("head"),
    log,
    events,
    seconds: () => Number(now) / 1e9,
    clock: { now: () => now },
    sleep: (ms) => Promise.resolve(void (now += BigInt(Math.round(ms * 1e6)))),
    anchor() {
      events.push("anchor");
      now += 50_000_000n;
      const drifting = script.anchorDrifts ? speed() : 1;
      const value = script.anchor?.(anchors) ?? 1e10 * drifting * Math.exp(0.004 * normal());
      anchors++;
      return Promise.resolve(value);
    },
    disturbance: () => Promise.resolve(script.disturbance?.(disturbances++) ?? CALM),
    ...(script.signal ? { signal: script.signal } : {}),
  };
}

export const DECODE: Workload = {
  id: "decode128@d0",
  kind: "decode",
  tokens: 128,
  depth: 0,
  sampleNsMin: 250e6,
  stepsMin: 32,
};

/** Settings of a session as the command line would make them. */
export function settings(given: Partial<CompareSettings> = {}): CompareSettings {
  const { pairs = 20, min_pairs = 6 } = given;
  return {
    model: "tiny",
    synthetic: null,
    device: "cpu",
    threads: null,
    kv: "f16",
    quantize: null,
    plan: {},
    suite: "decode",
    aa: false,
    pairs,
    min_pairs,
    looks: lookSchedule(min_pairs, pairs),
    max_seconds: 900,
    tolerance: 0.02,
    confidence: 0.95,
    order: "abba",
    resamples: 10_000,
    seed: 1,
    anchor_limit: ANCHOR_LIMIT,
    rejected_max: REJECTED_MAX,
    output_change: null,
    ...given,
  };
}
