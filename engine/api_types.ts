/**
 * What the engine offers to commands and to mod.ts, as types only: devices, models, sessions,
 * generation, reports. Nothing here runs; engine/ implements it and cli/ is written against it.
 */
import type { Device, DeviceInfo } from "../ffi/abi/handle.ts";
import type { DeviceKind } from "../ffi/abi/layout.ts";
import type { KvType } from "../kernels/models/forward.ts";
import type { Sampling } from "./generation_config.ts";
import type { LoadedModel } from "./model.ts";
import type { Session, SessionOptions } from "./session.ts";
import type { Drafter } from "./speculate/drafter.ts";
import type { RoundsReport } from "./speculate/rounds.ts";
import type { SyntheticOptions } from "./synthetic/load.ts";

export type {
  Device,
  DeviceInfo,
  DeviceKind,
  Drafter,
  KvType,
  RoundsReport,
  Sampling,
  Session,
  SessionOptions,
};
export type Model = LoadedModel;

export type Phase = "decode" | "prefill" | "verify";
/** Environment variables, read once by the caller. */
export type Env = Readonly<Record<string, string | undefined>>;
/** Switches of the fusions and shortcuts of a model, by name. */
export type Plan = Readonly<Record<string, boolean>>;

/** `done` of `total` in units of the stage. */
export interface Progress {
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  /** What is counted, where a rate of it means something. */
  readonly unit?: "bytes";
}

export interface OpenDeviceOptions {
  readonly kind: DeviceKind;
  /** Which of the kind; the CPU has one an instruction set, best first. */
  readonly index?: number;
  /** Undefined: as many as this process may use. */
  readonly threads?: number;
  /** The native library's file; undefined: the one that make built. */
  readonly library?: string;
}

export interface OpenModelOptions {
  readonly device: Device;
  readonly env: Env;
  /** Quantises a 16-bit checkpoint to affine codes of so many bits while it loads. */
  readonly quantize?: 4 | 8;
  /** Overrides single switches of the model's plan; unknown names are refused. */
  readonly plan?: Plan;
  /** Loads the MTP draft head too; a checkpoint without one is refused unless it is optional. */
  readonly draftHead?: boolean | "optional";
  /** Makes random weights for the named architecture instead of reading a checkpoint. */
  readonly synthetic?: SyntheticOptions;
  /** A synthetic model gets shapes and formats alone, and no memory: enough to record its tapes, not to play them. */
  readonly outline?: boolean;
  readonly onProgress?: (p: Progress) => void;
  /** Receives what a user should know before using the model, a line at a time. */
  readonly onNote?: (line: string) => void;
}

/** Drafts that the model verifies several at a time; what is generated does not change. */
export interface Speculation {
  /** `auto`: the MTP head where the session feeds it, else n-grams of the text so far. */
  readonly drafter: "off" | "auto" | "ngram" | "mtp" | Drafter;
  /** Drafts of each round; `auto`, the default of drafter `auto`, goes by measured times and acceptance. */
  readonly drafts?: number | "auto";
}

export interface GenerateOptions {
  readonly prompt: Uint32Array;
  readonly maxTokens: number;
  readonly sampling: Sampling;
  readonly stopIds: readonly number[];
  readonly stopStrings: readonly string[];
  readonly speculation?: Speculation;
  /** Aborting ends the text in good order: the result says `interrupted`. */
  readonly signal?: AbortSignal;
}

/** Text that is certain now, and the ids that were made since the last piece. */
export interface GeneratePiece {
  readonly text: string;
  readonly ids: readonly number[];
}

export type StopReason =
  | "stop_token"
  | "stop_string"
  | "max_tokens"
  | "context_full"
  | "interrupted";

export interface GenerateResult {
  readonly ids: Uint32Array;
  readonly text: string;
  readonly stopReason: StopReason;
  readonly promptTokens: number;
  readonly prefillNs: number | bigint;
  readonly ttftNs: number | bigint;
  /** Gaps between tokens: one less than the tokens made, as the first one's time is ttftNs. */
  readonly decodeIntervals: number;
  /** Time of exactly those intervals. */
  readonly decodeNs: number | bigint;
  /** What speculation came to, where there was any. */
  readonly rounds?: RoundsReport;
}

export interface ExplainOptions {
  readonly phase: Phase;
  /** Tokens in one play. */
  readonly rows: number;
  /** Tokens already in the KV cache. */
  readonly depth: number;
  readonly kv: KvType;
  readonly ctx?: number;
}

export interface PerplexityOptions {
  /** Tokens that each prediction may look back on, at most. */
  readonly window: number;
  /** Bytes of the text behind the ids, for bits per byte. */
  readonly textBytes?: number;
  readonly onProgress?: (p: Progress) => void;
}

export interface PerplexityResult {
  /** Mean negative log likelihood in nats a prediction. */
  readonly nll: number;
  readonly perplexity: number;
  readonly predictions: number;
  readonly bitsPerByte?: number;
}

/** Tensors of one purpose, such as "experts" or "attention". */
export interface TensorGroup {
  readonly name: string;
  readonly tensors: number;
  readonly params: number;
  readonly bytes: number;
  /** Bytes that one decoded token reads; less than `bytes` where only some experts are active. */
  readonly bytesPerToken: number;
  /** Storage formats in use, most bytes first. */
  readonly formats: readonly string[];
}

/** What one decoded token costs at a depth. */
export interface TokenCost {
  readonly depth: number;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** Recurrent state, read and written. */
  readonly stateBytes: number;
  readonly flops: number;
}

/** Device memory that a session of this context would need. */
export interface MemoryForecast {
  readonly ctx: number;
  readonly kv: KvType;
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly stateBytes: number;
  readonly scratchBytes: number;
  readonly totalBytes: number;
}

export interface InspectReport {
  readonly name: string;
  readonly path: string;
  readonly format: string;
  readonly family: string;
  /** Facts in the order in which they should be read. */
  readonly config: Readonly<Record<string, string | number | boolean | null>>;
  readonly fileBytes: number;
  readonly params: number;
  /** Parameters that one token uses. */
  readonly activeParams: number;
  readonly groups: readonly TensorGroup[];
  readonly costs: readonly TokenCost[];
  readonly memory: readonly MemoryForecast[];
  /** What loading decides or leaves out, one line each. */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
  /** Why this checkpoint cannot be run; empty when it can. */
  readonly refusals: readonly string[];
}

/** The engine as commands see it. */
export interface EngineApi {
  listDevices(): DeviceInfo[];
  openDevice(options: OpenDeviceOptions): Device;
  openModel(nameOrPath: string, options: OpenModelOptions): Promise<Model>;
  createSession(model: Model, options: SessionOptions): Session;
  generate(
    session: Session,
    options: GenerateOptions,
  ): AsyncGenerator<GeneratePiece, GenerateResult, void>;
  explainModel(model: Model, options: ExplainOptions): Promise<string>;
  inspectCheckpoint(nameOrPath: string, env: Env): Promise<InspectReport>;
  perplexity(
    session: Session,
    ids: Uint32Array,
    options: PerplexityOptions,
  ): Promise<PerplexityResult>;
}
