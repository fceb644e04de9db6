/**
 * Measuring two subjects against each other: settling, A B B A blocks behind an anchor, and the rules by
 * which a pair is rejected. The rules are fixed here, before anything is measured. Judges nothing.
 */
import { mad, median, randomFrom, theilSen } from "./stats.ts";
import {
  type Disturbance,
  type Sample,
  type Side,
  type Subject,
  SubjectError,
  type Surroundings,
  type Workload,
} from "./subject.ts";
import { BLOCK_PAIRS } from "./verdict.ts";

export const ORDERS = ["abba", "random"] as const;
export type Order = typeof ORDERS[number];

export const REJECT_REASONS = [
  "anchor_off",
  "throttled",
  "page_outs",
  "gpu_contention",
  "partner_rejected",
] as const;
export type RejectReason = typeof REJECT_REASONS[number];

/** An anchor further than this from the session's median rejects its pair. */
export const ANCHOR_LIMIT = 0.03;
/** Aimed at beyond the shortest sample: a machine that was busy while this was found may be faster later. */
const SAMPLE_MARGIN = 1.5;
/** Pauses in which a disturbance may pass before a pair is measured all the same. */
const ANCHOR_PAUSES_MS = [250, 500, 1000];
/** Anchors that make a median to hold a new one against. */
const ANCHORS_MIN = 4;
/** A session with more pairs rejected than this share is invalid. */
export const REJECTED_MAX = 0.25;

export const SETTLE = { window: 4, madMax: 0.01, pairsMax: 10, nsMax: 60e9 };

export interface PairRecord {
  readonly index: number;
  readonly block: number;
  /** Which side ran first: A is base. */
  readonly order: "AB" | "BA";
  readonly steps: number;
  readonly base_ns: number;
  readonly head_ns: number;
  /** Bytes a second of the anchor before the pair, after so many pauses. */
  readonly anchor: number;
  readonly anchor_pauses: number;
  readonly disturbance: Disturbance;
  readonly rejected: RejectReason | null;
}

export interface Settling {
  readonly pairs: number;
  readonly settled: boolean;
  /** Rates of the untimed pairs, geometric mean of both sides, steps a second. */
  readonly rates: readonly number[];
}

/** Output that differs from what the same subject made before. */
export class OutputError extends Error {
  override readonly name = "OutputError";
}

/** Two subjects on one workload, with the digests that every sample must repeat. */
export class Duel {
  readonly #digests = new Map<Side, string>();
  readonly #subjects: Readonly<Record<Side, Subject>>;
  #repeats = 1;

  constructor(base: Subject, head: Subject, readonly workload: Workload) {
    this.#subjects = { base, head };
  }

  get repeats(): number {
    return this.#repeats;
  }

  digest(side: Side): string {
    return this.#digests.get(side)!;
  }

  /** Fills both caches and finds how many repetitions make a sample long enough on either side. */
  async prepare(): Promise<void> {
    for (const side of ["base", "head"] as const) {
      await this.#subjects[side].prepare(this.workload);
    }
    // The first sample pays for cold caches and says nothing about the length of a warm one.
    for (let round = 0; round < 2; round++) {
      await this.sample("base");
      const base = await this.sample("base"), head = await this.sample("head");
      const ns = Math.min(base.ns, head.ns), steps = Math.min(base.steps, head.steps);
      const { sampleNsMin, stepsMin } = this.workload;
      const short = Math.max(SAMPLE_MARGIN * sampleNsMin / ns, stepsMin / steps);
      this.#repeats = Math.max(1, Math.ceil(this.#repeats * short));
    }
  }

  async sample(side: Side): Promise<Sample> {
    const s = await this.#subjects[side].sample(this.workload, this.#repeats);
    if (!(s.ns > 0) || !(s.steps > 0)) {
      throw new SubjectError(
        side,
        `a sample of ${s.steps} steps took ${s.ns} ns: there is no rate`,
      );
    }
    const known = this.#digests.get(side);
    if (known !== undefined && known !== s.digest) {
      throw new OutputError(`${side} made other tokens than in an earlier sample of the same work`);
    }
    this.#digests.set(side, s.digest);
    return s;
  }
}

/** Alternates both sides untimed until their rates neither drift nor scatter, or patience ends. */
export async function settle(duel: Duel, around: Surroundings): Promise<Settling> {
  const until = around.clock.now() + BigInt(SETTLE.nsMax);
  const rates: number[] = [];
  while (rates.length < SETTLE.pairsMax && !around.signal?.aborted) {
    const base = await duel.sample("base"), head = await duel.sample("head");
    rates.push(1e9 * Math.sqrt(base.steps / base.ns * (head.steps / head.ns)));
    if (isSettled(rates)) return { pairs: rates.length, settled: true, rates };
    if (around.clock.now() >= until) break;
  }
  return { pairs: rates.length, settled: false, rates };
}

function isSettled(rates: readonly number[]): boolean {
  const last = rates.slice(-SETTLE.window);
  if (last.length < SETTLE.window) return false;
  const slope = theilSen(last.map((_, i) => i), last)!;
  return slope.lo <= 0 && slope.hi >= 0 && mad(last) / median(last) < SETTLE.madMax;
}

export interface PairOptions {
  readonly order: Order;
  readonly seed: number;
  /** Anchors of the whole session; each pair adds one. */
  readonly anchors: number[];
}

/** Measures blocks of A B B A and keeps what it saw. */
export class PairRunner {
  readonly #records: PairRecord[] = [];
  readonly #random: () => number;

  constructor(
    readonly duel: Duel,
    readonly around: Surroundings,
    readonly options: PairOptions,
  ) {
    this.#random = randomFrom(options.seed);
  }

  /** All pairs so far, each with what the rules say about it now. */
  get records(): PairRecord[] {
    return markRejected(
      this.#records,
      median(this.options.anchors.length ? this.options.anchors : [0]),
    );
  }

  async block(): Promise<void> {
    const swap = this.options.order === "random" && this.#random() < 0.5;
    const block = this.#records.length / BLOCK_PAIRS;
    for (const order of swap ? ["BA", "AB"] as const : ["AB", "BA"] as const) {
      this.#records.push(await this.#pair(block, order));
    }
  }

  async #pair(block: number, order: "AB" | "BA"): Promise<PairRecord> {
    const { anchor, pauses } = await this.#anchor();
    await this.around.disturbance();
    const first = order === "AB" ? "base" : "head";
    const one = await this.duel.sample(first);
    const two = await this.duel.sample(first === "base" ? "head" : "base");
    const [base, head] = first === "base" ? [one, two] : [two, one];
    if (base.steps !== head.steps) {
      throw new SubjectError("head", `${head.steps} steps, but base made ${base.steps}`);
    }
    return {
      index: this.#records.length,
      block,
      order,
      steps: base.steps,
      base_ns: base.ns,
      head_ns: head.ns,
      anchor,
      anchor_pauses: pauses,
      disturbance: await this.around.disturbance(),
      rejected: null,
    };
  }

  async #anchor(): Promise<{ anchor: number; pauses: number }> {
    const { anchors } = this.options;
    let anchor = await this.around.anchor(), pauses = 0;
    const known = anchors.length >= ANCHORS_MIN ? median(anchors) : anchor;
    while (isOff(anchor, known) && pauses < ANCHOR_PAUSES_MS.length) {
      await this.around.sleep(ANCHOR_PAUSES_MS[pauses++]);
      anchor = await this.around.anchor();
    }
    anchors.push(anchor);
    return { anchor, pauses };
  }
}

function isOff(anchor: number, usual: number): boolean {
  return Math.abs(anchor / usual - 1) > ANCHOR_LIMIT;
}

/** Applies the rules. A pair whose partner is rejected goes too: half an A B B A is not balanced. */
export function markRejected(pairs: readonly PairRecord[], usualAnchor: number): PairRecord[] {
  const direct = pairs.map((p) => reasonOf(p, usualAnchor));
  const broken = new Set(pairs.filter((_, i) => direct[i] !== null).map((p) => p.block));
  return pairs.map((p, i) => ({
    ...p,
    rejected: direct[i] ?? (broken.has(p.block) ? "partner_rejected" : null),
  }));
}

function reasonOf(p: PairRecord, usualAnchor: number): RejectReason | null {
  if (isOff(p.anchor, usualAnchor)) return "anchor_off";
  if (p.disturbance.throttled) return "throttled";
  if (p.disturbance.page_outs) return "page_outs";
  return p.disturbance.gpu_contended ? "gpu_contention" : null;
}

/** Share of pairs that broke a rule themselves. */
export function rejectedShare(pairs: readonly PairRecord[]): number {
  const broke = pairs.filter((p) => p.rejected !== null && p.rejected !== "partner_rejected");
  return pairs.length === 0 ? 0 : broke.length / pairs.length;
}

/** ln(head rate / base rate) of the pairs that count. */
export function logRatios(pairs: readonly PairRecord[]): number[] {
  return pairs.filter((p) => p.rejected === null).map((p) => Math.log(p.base_ns / p.head_ns));
}
