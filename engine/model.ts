/**
 * A model on a device: its config, weights, plan and texts. Owns opening and closing one; sessions run it.
 */
import { NativeError } from "../ffi/abi/error.ts";
import { Device } from "../ffi/abi/handle.ts";
import type { Binding } from "../ffi/abi/handle.ts";
import { DEVICE_KINDS, type DeviceKind, THREADGROUP_KINDS } from "../ffi/abi/layout.ts";
import { openLibrary } from "../ffi/abi/open.ts";
import type { Slot } from "../ffi/tape/tape.ts";
import type { Plan, WeightForm } from "../kernels/models/forward.ts";
import type { ModelConfig } from "../kernels/models/qwen35_config.ts";
import { resolveModel } from "./aliases.ts";
import type { DeviceInfo, OpenDeviceOptions, OpenModelOptions } from "./api_types.ts";
import type { ChatTemplate } from "./chat.ts";
import { openCheckpoint } from "./checkpoint/folder.ts";
import { checkValues, damageError } from "./checkpoint/sanity.ts";
import { planWeights } from "./checkpoint/weights.ts";
import { UserError } from "./errors.ts";
import { outlined, synthesise, type SyntheticModel, syntheticModel } from "./synthetic/load.ts";
import { loadTexts, type Texts } from "./texts.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { DeviceWeights } from "./weights.ts";

/** Devices that can be opened now, each player's best first, with all threads that this process may use. */
export function listDevices(): DeviceInfo[] {
  return DEVICE_KINDS.flatMap((kind) =>
    Array.from({ length: Device.count(kind) }, (_, index) => {
      using device = Device.open(kind, index);
      return device.info;
    })
  );
}

/** Opens a device. `threads` undefined: as many as this process may use. */
export function openDevice(options: OpenDeviceOptions): Device {
  const { kind, index = 0, threads = 0 } = options;
  const library = openLibrary(options.library);
  try {
    return Device.open(kind, index, threads, library);
  } catch (e) {
    if (!(e instanceof NativeError) || Device.count(kind, library) > 0) throw e;
    const why =
      `Cannot open a ${kind} device: ${e.message}. \`lapwing devices\` lists what there is`;
    throw new NativeError(why, e.status, e.record, e.backendCode, { cause: e });
  }
}

/** Switches of a plan and what they are when nobody says. */
export function defaultPlan(kind: DeviceKind): Plan {
  // 8-bit activations are the CPU's way to its integer dot products; elsewhere they buy nothing.
  // A record costs a GPU microseconds, a CPU next to nothing.
  return { actInt8: kind === "cpu", fused: THREADGROUP_KINDS.includes(kind) };
}

function planWith(kind: DeviceKind, given: Readonly<Record<string, boolean>> = {}): Plan {
  const plan = defaultPlan(kind);
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(plan, name)) {
      throw new UserError(
        `Unknown plan switch ${name}: there is ${Object.keys(plan).join(", ")}.`,
      );
    }
  }
  if (given.actInt8 && kind !== "cpu") {
    throw new UserError(
      `--plan actInt8=on is for the CPU: there are no such kernels for ${kind}.`,
    );
  }
  return { ...plan, ...given };
}

/** Where a model came from: a checkpoint, or an architecture whose weights were made. */
export interface ModelOrigin {
  /** Empty for a synthetic model. */
  readonly path: string;
  readonly config: ModelConfig;
  readonly tokenizerPath: string | null;
  readonly synthetic: SyntheticModel["options"] | null;
}

export class LoadedModel implements Disposable {
  constructor(
    readonly name: string,
    readonly origin: ModelOrigin,
    readonly device: Device,
    readonly plan: Plan,
    /** What loading decided or left out, for people. */
    readonly notes: readonly string[],
    readonly weights: DeviceWeights,
    readonly texts: Texts | null,
  ) {}

  get path(): string {
    return this.origin.path;
  }
  get config(): ModelConfig {
    return this.origin.config;
  }
  get forms(): ReadonlyMap<string, WeightForm> {
    return this.weights.forms;
  }
  /** Whether the weights of an MTP draft head were loaded. */
  get hasDraftHead(): boolean {
    return this.forms.has("mtp.fc");
  }
  /** Bytes of weights as kernels read them. */
  get bytes(): number {
    return this.weights.bytes;
  }
  /** Token ids from here on are padding of the embedding table. */
  get vocabUsed(): number {
    const { vocab } = this.config;
    return this.texts ? Math.min(this.texts.tokenizer.size, vocab) : vocab;
  }
  /** Throws UserError where the checkpoint came without one. */
  get tokenizer(): Tokenizer {
    if (this.texts) return this.texts.tokenizer;
    throw new UserError(
      this.origin.synthetic
        ? `A synthetic ${this.name} has no tokenizer: text needs one. Use random token ids.`
        : `${this.path} has no tokenizer.json: text needs one. Copy it from the model's repository.`,
    );
  }
  get chatTemplate(): ChatTemplate | null {
    return this.texts?.chatTemplate ?? null;
  }

  binding(stored: string, part: Slot["part"]): Binding {
    return this.weights.binding(stored, part);
  }

  [Symbol.dispose](): void {
    this.weights[Symbol.dispose]();
  }
}

/**
 * Opens a checkpoint by path or alias and brings its weights onto the device. Throws UserError for
 * anything that the caller can fix and NativeError when the device fails.
 */
export async function openModel(
  nameOrPath: string,
  options: OpenModelOptions,
): Promise<LoadedModel> {
  const { device, env, quantize, draftHead, onProgress, onNote } = options;
  const plan = planWith(device.info.kind, options.plan);
  if (options.synthetic) return await openSynthetic(nameOrPath, options, plan);
  const { path, note } = await resolveModel(nameOrPath, env);
  if (note) onNote?.(note);
  const checkpoint = await openCheckpoint(path);
  const weightPlan = planWeights(checkpoint, { quantize, draftHead });
  const values = await checkValues(weightPlan);
  if (values.damage.length > 0) throw damageError(path, values.damage);
  for (const line of [...weightPlan.warnings, ...values.warnings]) onNote?.(line);
  const texts = await loadTexts(checkpoint);
  const weights = await DeviceWeights.load(device, checkpoint, weightPlan, onProgress);
  weights.addConstant("invFreq", inverseFrequencies(checkpoint.config));
  const origin = {
    path,
    config: checkpoint.config,
    tokenizerPath: checkpoint.texts["tokenizer.json"] ?? null,
    synthetic: null,
  };
  return new LoadedModel(nameOrPath, origin, device, plan, weightPlan.notes, weights, texts);
}

async function openSynthetic(
  name: string,
  { device, env, quantize, synthetic, outline, draftHead, onProgress, onNote }: OpenModelOptions,
  plan: Plan,
): Promise<LoadedModel> {
  const model = await syntheticModel(
    name,
    { ...synthetic, bits: quantize, draftHead: !!draftHead },
    env,
  );
  const { config, options, note } = model;
  if (note) onNote?.(note);
  const weights = outline
    ? outlined(device, model)
    : await synthesise(device, model, name, onProgress);
  weights.addConstant("invFreq", inverseFrequencies(config));
  const notes = [`random weights from seed ${options.seed}, routing ${options.routing}`];
  const origin = { path: "", config, tokenizerPath: null, synthetic: options };
  return new LoadedModel(name, origin, device, plan, notes, weights, null);
}

/** theta^(-2j/R) for the R rotary dims, spec section 3. */
export function inverseFrequencies(c: ModelConfig): Float32Array<ArrayBuffer> {
  return Float32Array.from(
    { length: c.rotaryDim / 2 },
    (_, j) => c.ropeTheta ** (-2 * j / c.rotaryDim),
  );
}
