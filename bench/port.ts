/**
 * What measurement needs from an engine, a machine and a clock: small enough that a test can stand in for
 * all three. bench/live.ts and bench/rig.ts implement them; nothing here runs.
 */
import type { Dispatch, KvType, RowMemory, Spec, VerifySweep } from "./report.ts";

/** Nanoseconds of a monotonic clock. */
export interface Clock {
  now(): bigint;
}

/** What came out since the last restore(): enough to tell whether two runs did the same. */
export interface Produced {
  readonly tokens: number;
  /** sha256 of the token ids as little-endian u32, hex. */
  readonly digest: string;
}

/**
 * One model on one device with one timeline. It reads no clock: callers do, around calls, and every call
 * has finished its work when its promise resolves.
 */
export interface TimedEngine extends Disposable {
  /** Fills the timeline with the first `depth` tokens of the prompt and remembers that state. */
  fill(depth: number, signal?: AbortSignal): Promise<void>;
  /** Back to the filled state; throws unless its recurrent state has the hash that fill() saw. */
  restore(): Promise<void>;
  /** Runs the next `tokens` prompt tokens and samples the token behind them. */
  prefill(tokens: number, signal?: AbortSignal): Promise<void>;
  /** Decodes `tokens` greedy tokens in one call; each is computed from the one before it. */
  decode(tokens: number): Promise<void>;
  /** Verifies `rows` prompt tokens in one play: logits of every row. */
  verify(rows: number): Promise<void>;
  /** What came out since restore(). */
  produced(): Promise<Produced>;
}

/** What a cell runs behind a filled timeline. */
export type Work =
  | { readonly kind: "prefill"; readonly prompt: number }
  | { readonly kind: "decode"; readonly gen: number; readonly callTokens?: number }
  | { readonly kind: "prompt_decode"; readonly prompt: number; readonly gen: number }
  | { readonly kind: "verify"; readonly rows: number }
  | RoundWork
  | SpeculateWork;

/** One speculative round of so many rows. */
export interface RoundWork {
  readonly kind: "round";
  readonly rows: number;
}

/** A run of rounds that makes `gen` tokens, with so many drafts asked for in each. */
export interface SpeculateWork {
  readonly kind: "speculate";
  readonly gen: number;
  readonly drafter: VerifySweep["drafter"];
  readonly drafts: number;
  /** Of the sampler that draws the tokens; 0: greedy. */
  readonly temperature: number;
}

/** Plays of a run that verified so many drafts; 0: single tokens. */
export interface LengthCount {
  readonly drafts: number;
  readonly plays: number;
  /** How many of them kept the draft at each place. */
  readonly acceptedAt: readonly number[];
}

/** A play whose outcome is forced: the first `accepted` of its drafts are right. */
export interface ForcedPlay {
  /** Drafts to verify; 0: a single token. */
  readonly drafts: number;
  readonly accepted: number;
  /** Drafts that the model's head makes behind it. */
  readonly next: number;
}

/** Rounds of one call that the model's head drafted for, each leaving the drafts of the next. */
export interface Chain {
  readonly ns: number;
  readonly length: LengthCount;
}

/** What a run of rounds did and took. */
export interface RunOfRounds extends Produced {
  readonly ns: number;
  /** Inside plays, and inside a drafter of the host. */
  readonly deviceNs: number;
  readonly draftNs: number;
  /** Rounds that verified; single tokens where there was no draft. */
  readonly rounds: number;
  readonly serial: number;
  /** All plays by the drafts that they verified, ascending. */
  readonly lengths: readonly LengthCount[];
  readonly drafted: number;
  readonly accepted: number;
  readonly acceptedAt: readonly number[];
  readonly ids: readonly number[];
}

/** Means over the tokens of a piece of work, from the tapes that it plays. */
export interface WorkCost {
  readonly weights: number;
  readonly kv: number;
  readonly state: number;
  readonly flops: number;
  /** Bytes that the largest play touches. */
  readonly playBytes: number;
}

/** The model fed token by token against one chunk of the same tokens. */
export interface FormCheck {
  readonly compared: number;
  readonly matched: number;
  readonly firstDivergence: number | null;
  readonly maxLogitNmse: number;
  /** What the plan's rounding of activations does to the same logits; null for a plan without. */
  readonly roundingNmse: number | null;
  /** Share of experts that both forms choose; null without experts. */
  readonly routingMatch: number | null;
  readonly ok: boolean;
}

/** Which experts the tokens of the prompt choose. */
export interface RoutingFacts {
  readonly sampledTokens: number;
  /** Uses of the busiest expert over the mean of all, mean over layers. */
  readonly imbalance: number;
  /** Distinct experts of so many consecutive tokens in a layer: means over layers. */
  distinct(rows: number): number;
}

/** Speculative rounds behind the filled state; what serial decode makes there is known to it. */
export interface RoundsEngine {
  /** Whether the model's head can draft. */
  readonly draftHead: boolean;
  /** As restore(), unchecked: for runs whose output is compared. */
  rewind(temperature?: number): Promise<void>;
  /** What serial decode makes behind the filled state: what forced drafts are right or wrong by. */
  serial(tokens?: number, temperature?: number): Promise<Produced>;
  /**
   * One round of which the first `accepted` drafts are right, its tokens read back; the model's head makes
   * `drafts` drafts behind it.
   */
  round(rows: number, accepted: number, drafts?: number): Promise<void>;
  /** Time of the records that commit such a round. */
  commitNs(rows: number, accepted: number): Promise<number>;
  /** Makes ready for runs of this work: what serial decode makes there is known behind it. */
  runs(work: SpeculateWork): Promise<RunsEngine>;
}

/** Runs of one drafter from the filled state, and what they are foretold from. Each goes back by itself. */
export interface RunsEngine {
  /** What serial decode makes in place of a run. */
  readonly serial: Produced;
  run(clock: Clock): Promise<RunOfRounds>;
  /**
   * Plays of forced outcome, a call each, again and again along the tokens of serial decode, with the host's work as
   * in a run: the times of all of them. Throws where other tokens come out.
   */
  walk(plays: readonly ForcedPlay[], clock: Clock): Promise<number[]>;
  /** A call of rounds with the head's drafts behind another last token: not those of the run. */
  chain(clock: Clock): Promise<Chain>;
  /** Time of the host's drafter when it is asked `times` times on the way along those tokens. */
  proposeNs(times: number, clock: Clock): number;
  /** How much the prompt repeats itself, and the tokens of serial decode behind it. */
  hitRates(): HitRates;
}

/** Shares of tokens that the n-gram drafter would have foretold; null where there are none. */
export interface HitRates {
  readonly prompt: number | null;
  readonly output: number | null;
}

/** A timed engine that also says what it runs. None of this is part of a timing. */
export interface BenchEngine extends TimedEngine, RoundsEngine {
  /** Positions that the model was made for. */
  readonly contextMax: number;
  /** sha256 of the first `tokens` prompt ids. */
  promptDigest(tokens: number): Promise<string>;
  /** Makes ready whatever the calls of a piece of work would otherwise make when they are timed. */
  prepare(work: Work, calls: readonly number[]): void;
  check(): Promise<FormCheck>;
  /** Remembers the present state, so that a fill() up to here need not compute it again. */
  keepAhead(): void;
  /** Null where the model has no experts. */
  routing(): Promise<RoutingFacts | null>;
  cost(work: Work, routing: RoutingFacts | null): WorkCost;
  /** The play that a piece of work consists of, and its time record by record. */
  dispatch(work: Work, clock: Clock): Promise<Omit<Dispatch, "gap_ns">>;
  memory(): Omit<RowMemory, "device_peak" | "peak" | "baseline">;
}

/** What one engine is opened with. */
export interface EngineSettings {
  /** 0: as many as the process may use. */
  readonly threads: number;
  readonly kv: KvType;
  readonly prefillRows: number;
}

/** Reading of what the machine did meanwhile; differences of two say what disturbed a row. */
export interface MachineReading {
  readonly swappedPages: number | null;
  /** CPU time of everything but this process, ns. */
  readonly foreignCpuNs: number | null;
  readonly cpus: number;
}

export interface EnergyMeter extends Disposable {
  readonly source: "rapl" | "nvml" | "powermetrics";
  /** Joules since some fixed moment; null once the meter is lost. */
  joules(): Promise<number | null>;
  /** Why it reads no longer; null while it does. */
  lost(): string | null;
}

export interface PerplexityRun {
  readonly nll: number;
  readonly perplexity: number;
  readonly predictions: number;
}

/** What was copied onto a device with memory of its own. */
export interface Copied {
  readonly bytes: number;
  readonly ns: number;
}

/** Opens engines and watches the machine around them. */
export interface Rig extends Disposable {
  readonly clock: Clock;
  /** The smallest step that the clock makes. */
  readonly clockGrainNs: number;
  /**
   * Opens a session of a context; one is open at a time, and closed before the next. Its prompt is the
   * spec's, unless other tokens are named.
   */
  open(settings: EngineSettings, ctx: number, tokens?: Spec["tokens"]): Promise<BenchEngine>;
  /**
   * Opens the model anew, with nothing of it in this process before. Null where the device uses files in place
   * or makes its weights.
   */
  load(settings: EngineSettings): Promise<Copied | null>;
  /**
   * Bytes a second of pinned memory copied to the device: what load() cannot beat. Null where it copies nothing or
   * nobody measures it.
   */
  uploadBandwidth(settings: EngineSettings): number | null;
  /** Hash of the weights that the last load() brought onto the device. */
  weights(): Promise<string>;
  perplexity(settings: EngineSettings, signal?: AbortSignal): Promise<PerplexityRun>;
  /** Fastest reading of a working set of so many bytes, with the threads of the run; bytes a second. */
  readBandwidth(settings: EngineSettings, bytes: number): Promise<number>;
  reading(): Promise<MachineReading>;
  /** Null with a reason where the machine does not tell. */
  readonly energy: EnergyMeter | { readonly absent: string };
  /** Forgets the high water mark of this process's memory, where the system can. */
  startPeak(): Promise<void>;
  /** High water marks since, and this process's memory before any model was open. */
  memoryPeak(): Promise<Pick<RowMemory, "device_peak" | "peak" | "baseline">>;
}
