/** An engine that says a fixed text with the built-in model's tokenizer: commands without native code. */
import type {
  Device,
  DeviceInfo,
  EngineApi,
  GenerateOptions,
  GenerateResult,
  InspectReport,
  Model,
  OpenModelOptions,
  RoundsReport,
  Session,
  StopReason,
} from "../../engine/api_types.ts";
import { loadChatTemplate } from "../../engine/chat.ts";
import { UserError } from "../../engine/errors.ts";
import { tiny, tinyFiles } from "../engine/tiny_files.ts";

/** What a command asked for, and what it left undisposed. */
export interface Calls {
  device?: { kind: string; threads?: number };
  model?: OpenModelOptions & { name: string };
  session?: unknown;
  generate?: GenerateOptions;
  perplexity?: { ids: Uint32Array; window: number; textBytes?: number };
  explain?: unknown;
  /** How often the devices were listed. */
  lists: number;
  alive: number;
}

export interface Script {
  /** What every generation says. */
  readonly text?: string;
  readonly delayMs?: number;
  /** Thrown when the model is opened. */
  readonly failure?: Error;
  readonly chat?: boolean;
  /** What speculation came to. */
  readonly rounds?: RoundsReport;
  /** Told when the model is opened. */
  readonly notes?: readonly string[];
}

const CPU: DeviceInfo = {
  kind: "cpu",
  index: 0,
  name: "Some CPU",
  threads: 4,
  isa: "avx2",
  memoryBytes: 16e9,
  memoryFreeBytes: 8e9,
};
const NULL: DeviceInfo = {
  kind: "null",
  index: 0,
  name: "null",
  threads: 0,
  isa: "",
  memoryBytes: 0,
  memoryFreeBytes: 0,
};

export const REPORT: InspectReport = {
  name: "tiny",
  path: "/models/tiny",
  format: "MLX safetensors",
  family: "qwen3_5_moe",
  config: { hidden: 512, layers: 8, tied: true },
  fileBytes: 13.9e6,
  params: 24_566_832,
  activeParams: 15.3e6,
  groups: [{
    name: "experts",
    tensors: 24,
    params: 9.4e6,
    bytes: 5.3e6,
    bytesPerToken: 1.8e6,
    formats: ["q4g64_bf16"],
  }],
  costs: [{ depth: 0, weightBytes: 8e6, kvBytes: 0, stateBytes: 1.6e6, flops: 3e7 }],
  memory: [{
    ctx: 4096,
    kv: "f16",
    weightBytes: 1.2e7,
    kvBytes: 8e6,
    stateBytes: 8e5,
    scratchBytes: 1e6,
    totalBytes: 2.2e7,
  }],
  notes: ["ignored 12 tensors of the vision tower"],
  warnings: ["layer-0 norm mean is 0.01"],
  refusals: [],
};

export function fakeEngine(script: Script = {}): EngineApi & { readonly calls: Calls } {
  const calls: Calls = { lists: 0, alive: 0 };
  const alive = () => {
    calls.alive++;
    return { [Symbol.dispose]: () => void calls.alive-- };
  };
  // Handles of the real engine have private parts; commands use only what stands here.
  const model = (options: OpenModelOptions) => ({
    ...alive(),
    hasDraftHead: Boolean(options.draftHead),
    name: "tiny",
    path: "/models/tiny",
    tokenizer: tiny,
    chatTemplate: script.chat === false ? null : loadChatTemplate(tinyFiles, tiny.specialTokens),
    plan: { fuseNormQkv: true, actInt8: false },
    bytes: 12e6,
  } as unknown as Model);
  return {
    calls,
    listDevices() {
      calls.lists++;
      return [CPU, NULL];
    },
    openDevice(options) {
      calls.device = options;
      return { ...alive(), info: CPU } as unknown as Device;
    },
    openModel(name, options): Promise<Model> {
      calls.model = { name, ...options };
      if (script.failure) throw script.failure;
      options.onProgress?.({ stage: "reading", done: 1, total: 2 });
      for (const line of script.notes ?? []) options.onNote?.(line);
      return Promise.resolve(model(options));
    },
    createSession(_model, options) {
      calls.session = options;
      return { ...alive(), ctx: options.ctx ?? 4096 } as unknown as Session;
    },
    generate: (_session, options) => say(calls, script, options),
    explainModel(_model, options) {
      calls.explain = options;
      return Promise.resolve("   0   rms_norm");
    },
    inspectCheckpoint: (name) =>
      name === "tiny"
        ? Promise.resolve(REPORT)
        : Promise.resolve({ ...REPORT, name, refusals: ["unknown architecture gpt2"] }),
    perplexity(_session, ids, options) {
      calls.perplexity = { ids, window: options.window, textBytes: options.textBytes };
      return Promise.resolve({
        nll: 3.25,
        perplexity: 25.79,
        predictions: ids.length - 1,
        bitsPerByte: 1.5,
      });
    },
  };
}

async function* say(
  calls: Calls,
  script: Script,
  options: GenerateOptions,
): ReturnType<EngineApi["generate"]> {
  calls.generate = options;
  if (options.prompt.length > 4000) throw new UserError("The prompt does not fit");
  const stream = tiny.streamDecoder();
  const ids: number[] = [];
  let text = "";
  let stopReason: StopReason = "stop_token";
  for (const id of tiny.encode(script.text ?? " the sun was shining.")) {
    if (script.delayMs) await new Promise((done) => setTimeout(done, script.delayMs));
    stopReason = options.signal?.aborted ? "interrupted" : "max_tokens";
    if (options.signal?.aborted || ids.length === options.maxTokens) break;
    stopReason = "stop_token";
    ids.push(id);
    const piece = stream.push(id);
    text += piece;
    yield { text: piece, ids: [id] };
  }
  const result: GenerateResult = {
    ids: Uint32Array.from(ids),
    text: text + stream.end(),
    stopReason,
    promptTokens: options.prompt.length,
    prefillNs: 2_000_000n,
    ttftNs: 3_000_000,
    decodeIntervals: Math.max(0, ids.length - 1),
    decodeNs: 10_000_000 * Math.max(0, ids.length - 1),
    ...script.rounds && { rounds: script.rounds },
  };
  return result;
}
