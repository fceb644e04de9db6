/**
 * The real rig: devices and models opened as cells need them, one session at a time, and this machine's clock
 * and counters. Decides nothing about what is measured.
 */
import type { Device, Env, Progress } from "../engine/api_types.ts";
import { UserError } from "../engine/errors.ts";
import { type LoadedModel, openDevice, openModel } from "../engine/model.ts";
import { perplexity } from "../engine/perplexity.ts";
import { Session } from "../engine/session.ts";
import { OWN_MEMORY_KINDS } from "../ffi/abi/layout.ts";
import { LOADING } from "../engine/weights.ts";
import { DEVICE_KINDS } from "../ffi/abi/layout.ts";
import { farBandwidth, readBandwidth, uploadBandwidth, WORKING_SET_MAX } from "./anchor.ts";
import { clockGrainNs, monotonicClock } from "./clock.ts";
import { type Energy, energyMeter, systemHost } from "./energy.ts";
import { CHECK_ROWS, LiveEngine } from "./live.ts";
import { captureEnvironment, PeakMemory, readMachine, residentMemory } from "./machine.ts";
import { modelIdentity, weightsHash } from "./identity.ts";
import { PASSAGE } from "./passage.ts";
import type { Copied, EngineSettings, MachineReading, PerplexityRun, Rig } from "./port.ts";
import { Prompt } from "./prompt.ts";
import type { Environment, ModelIdentity, Spec } from "./report.ts";
import { readText } from "./json_file.ts";

export { CHECK_ROWS };

/** What of a spec the rig itself goes by. */
export type RigSpec =
  & Pick<
    Spec,
    | "model"
    | "synthetic"
    | "device"
    | "quantize"
    | "plan"
    | "verify_sweep"
    | "tokens"
    | "text_file"
    | "seed"
  >
  & Partial<Pick<Spec, "perplexity">>;

export interface RigOptions {
  readonly spec: RigSpec;
  readonly env: Env;
  /** The native library's file; undefined: the one that make built. */
  readonly library?: string;
  readonly onProgress?: (p: Progress) => void;
  readonly onNote?: (line: string) => void;
}

/** Of a size that rows share, where no other program disturbs them: the first may be of a device that just wakes up. */
const READINGS = 2;

export class LiveRig implements Rig {
  readonly clock = monotonicClock;
  readonly clockGrainNs = clockGrainNs(monotonicClock);
  #device: { readonly threads: number; readonly device: Device } | null = null;
  #model: LoadedModel | null = null;
  #engine: LiveEngine | null = null;
  readonly #prompts = new Map<string, Prompt>();
  readonly #peak = new PeakMemory();
  readonly #bandwidths: {
    readonly threads: number;
    readonly bytes: number;
    readonly rate: number;
  }[] = [];

  private constructor(
    readonly o: RigOptions,
    readonly energy: Energy,
    readonly baseline: number,
  ) {}

  static async open(o: RigOptions): Promise<LiveRig> {
    return new LiveRig(o, await energyMeter(o.spec.device, systemHost), residentMemory());
  }

  /** The environment with the bandwidth of memory beyond the caches, measured now. */
  async environment(threads: number): Promise<Environment> {
    const device = this.#open(threads);
    if (device.info.kind === "null") return await captureEnvironment(device, null);
    const far = await farBandwidth(device, this.clock);
    this.#bandwidths.push({ threads, bytes: far.bytes, rate: far.read });
    return await captureEnvironment(device, far);
  }

  /** Opens the model; throws what a user has to be told when that cannot be. */
  async identity(threads: number): Promise<ModelIdentity> {
    return await modelIdentity(await this.#load(threads));
  }

  /** Positions that the model was made for. */
  async contextMax(threads: number): Promise<number> {
    return (await this.#load(threads)).config.contextMax;
  }

  async open(
    settings: EngineSettings,
    ctx: number,
    tokens = this.o.spec.tokens,
  ): Promise<LiveEngine> {
    this.#engine?.[Symbol.dispose]();
    this.#engine = null;
    const model = await this.#load(settings.threads);
    const prompt = this.#prompts.get(tokens) ?? await this.#makePrompt(model, tokens);
    this.#prompts.set(tokens, prompt);
    this.#engine = new LiveEngine(model, settings, prompt, ctx);
    return this.#engine;
  }

  async load({ threads }: EngineSettings): Promise<Copied | null> {
    this.#forgetModel();
    let begun: bigint | null = null, copied: Copied | null = null;
    await this.#load(threads, ({ stage, done, total }) => {
      if (stage !== LOADING) return;
      begun ??= this.clock.now();
      if (done === total) copied = { bytes: total, ns: Number(this.clock.now() - begun) };
    });
    return OWN_MEMORY_KINDS.includes(this.#device!.device.info.kind) ? copied : null;
  }

  uploadBandwidth({ threads }: EngineSettings): number | null {
    return uploadBandwidth(this.#open(threads));
  }

  weights(): Promise<string> {
    return Promise.resolve(weightsHash(this.#model!));
  }

  async perplexity(settings: EngineSettings): Promise<PerplexityRun> {
    const asked = this.o.spec.perplexity!;
    const model = await this.#load(settings.threads);
    const all = model.tokenizer.encode(await readText(asked.file));
    const ids = asked.tokens === null ? all : all.subarray(0, asked.tokens);
    const { kv, prefillRows } = settings;
    using session = new Session(model, { ctx: asked.window, kv, prefillRows });
    const { nll, perplexity: value, predictions } = await perplexity(session, ids, {
      window: asked.window,
      onProgress: this.o.onProgress,
    });
    return { nll, perplexity: value, predictions };
  }

  async readBandwidth(settings: EngineSettings, bytes: number): Promise<number> {
    const { threads } = settings, device = this.#open(threads);
    const size = Math.min(bytes, WORKING_SET_MAX), all = this.#bandwidths;
    const known = all.filter((b) => b.threads === threads && b.bytes === size).length;
    // A device with memory of its own is not quieter a moment later.
    if (known < READINGS || !OWN_MEMORY_KINDS.includes(device.info.kind)) {
      const rate = await readBandwidth(device, size, this.clock);
      all.push({ threads, bytes: size, rate });
    }
    // What was read of a larger set in a quieter moment bounds a smaller one too: caches only help.
    const bounds = all.filter((b) => b.threads === threads && b.bytes >= size);
    return Math.max(...bounds.map((b) => b.rate));
  }

  async reading(): Promise<MachineReading> {
    return await readMachine();
  }

  async startPeak(): Promise<void> {
    this.#device?.device.use.restart();
    await this.#peak.start();
  }

  async memoryPeak() {
    const weights = this.#model, mapped = weights ? weights.bytes - weights.weights.copied : 0;
    const used = this.#device?.device.use.peak ?? null;
    return {
      device_peak: used === null ? null : used + mapped,
      peak: await this.#peak.bytes(),
      baseline: this.baseline,
    };
  }

  #open(threads: number): Device {
    if (this.#device?.threads === threads) return this.#device.device;
    this.#forgetModel();
    this.#device?.device[Symbol.dispose]();
    this.#device = null;
    const kind = DEVICE_KINDS.find((k) => k === this.o.spec.device);
    if (!kind) throw new UserError(`Unknown device ${this.o.spec.device}.`);
    const device = openDevice({ kind, threads, library: this.o.library });
    this.#device = { threads, device };
    return device;
  }

  async #load(threads: number, watch?: (p: Progress) => void): Promise<LoadedModel> {
    const device = this.#open(threads);
    if (this.#model) return this.#model;
    const { spec, env, onNote } = this.o, { synthetic } = spec;
    const onProgress = (p: Progress) => {
      watch?.(p);
      this.o.onProgress?.(p);
    };
    this.#model = await openModel(spec.model, {
      device,
      env,
      onProgress,
      onNote,
      plan: spec.plan,
      draftHead: spec.verify_sweep?.drafter === "mtp",
      quantize: spec.quantize ?? undefined,
      synthetic: synthetic
        ? {
          seed: synthetic.seed,
          routing: synthetic.routing,
          layers: synthetic.layers ?? undefined,
          experts: synthetic.experts ?? undefined,
          vocab: synthetic.vocab ?? undefined,
        }
        : undefined,
    });
    return this.#model;
  }

  #forgetModel(): void {
    this.#engine?.[Symbol.dispose]();
    this.#engine = null;
    this.#model?.[Symbol.dispose]();
    this.#model = null;
  }

  async #makePrompt(model: LoadedModel, tokens: Spec["tokens"]): Promise<Prompt> {
    const { seed, text_file, verify_sweep } = this.o.spec;
    const file = verify_sweep?.acceptance_file ?? text_file;
    const options = { tokens, seed, vocab: model.vocabUsed };
    if (tokens !== "text") return new Prompt(options);
    const text = model.tokenizer.encode(file === null ? PASSAGE : await readText(file));
    if (text.length === 0) throw new UserError(`${file} has no tokens: give a text with --text.`);
    return new Prompt({ ...options, text });
  }

  [Symbol.dispose](): void {
    if ("joules" in this.energy) this.energy[Symbol.dispose]();
    this.#forgetModel();
    this.#device?.device[Symbol.dispose]();
    this.#device = null;
  }
}
