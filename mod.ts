/**
 * lapwing as a library: open a device, open a model, generate.
 *
 * ```ts
 * import { generate, GREEDY, openDevice, openModel, Session } from "./mod.ts";
 *
 * using device = openDevice({ kind: "cpu" });
 * using model = await openModel("tiny", { device, env: {} });
 * using session = new Session(model);
 * const prompt = model.tokenizer.encode("Once upon a time");
 * const stopIds = model.tokenizer.stopIds;
 * for await (const { text } of generate(session, { prompt, maxTokens: 20, sampling: GREEDY, stopIds, stopStrings: [] })) {
 *   console.log(text);
 * }
 * ```
 *
 * @module
 */
export type {
  DeviceInfo,
  Env,
  ExplainOptions,
  GenerateOptions,
  GeneratePiece,
  GenerateResult,
  OpenModelOptions,
  PerplexityOptions,
  PerplexityResult,
  Progress,
  Speculation,
  StopReason,
} from "./engine/api_types.ts";
export {
  type ChatMessage,
  type ChatRequest,
  type ChatTemplate,
  renderChat,
} from "./engine/chat.ts";
export { UserError } from "./engine/errors.ts";
export { explainModel } from "./engine/explain.ts";
export { generate } from "./engine/generate.ts";
export { GREEDY, type Sampling } from "./engine/generation_config.ts";
export { listDevices, LoadedModel, openDevice, openModel } from "./engine/model.ts";
export { perplexity } from "./engine/perplexity.ts";
export {
  type RoundShape,
  type RunOptions,
  Session,
  type SessionOptions,
} from "./engine/session.ts";
export type { CallOutcome, Draft, Drafter, DraftPolicy } from "./engine/speculate/drafter.ts";
export { fixedDrafts } from "./engine/speculate/drafter.ts";
export { mtpDrafter } from "./engine/speculate/mtp.ts";
export { ngramDrafter } from "./engine/speculate/ngram.ts";
export { AutoDrafts } from "./engine/speculate/policy.ts";
export { Rounds, type RoundsCall, type RoundsReport } from "./engine/speculate/rounds.ts";
export type { Snapshot } from "./engine/state.ts";
export type { RoundCounts } from "./engine/step_block.ts";
export { StreamDecoder, Tokenizer } from "./engine/tokenizer.ts";
export { Device, NativeError } from "./ffi/abi/handle.ts";
export type { KvType, Plan } from "./kernels/models/forward.ts";
export type { ModelConfig } from "./kernels/models/qwen35_config.ts";
