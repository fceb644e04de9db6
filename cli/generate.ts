/**
 * `lapwing generate`: a prompt in, text out, and one line of timing. Reads the prompt and prints; the
 * engine tokenises, plays and samples.
 */
import type { Command } from "commander";
import type {
  GenerateOptions,
  GenerateResult,
  Model,
  RoundsReport,
  Sampling,
  Session,
} from "../engine/api_types.ts";
import { renderChat } from "../engine/chat.ts";
import { UserError } from "../engine/errors.ts";
import { counted } from "../engine/wording.ts";
import type { Context } from "./context.ts";
import { EXIT } from "./exit.ts";
import { FLAGS, type ModelFlags } from "./flags.ts";
import { examples } from "./help.ts";
import { type Opened, openModel, refuseNullDevice } from "./open_model.ts";
import { duration, json, perSecond, rate, terminalSafe } from "./print.ts";
import { readText } from "./prompt.ts";

interface Flags extends ModelFlags {
  readonly file?: string;
  readonly chat?: boolean;
  readonly system?: string;
  readonly think?: boolean;
  readonly maxTokens: number;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly repeatPenalty?: number;
  readonly seed: number;
  readonly stop: readonly string[];
  readonly spec: "off" | "auto" | "ngram" | "mtp";
  readonly draftTokens?: number | "auto";
  readonly ctx?: number;
  readonly kv: "f32" | "f16" | "bf16" | "q8";
  readonly json?: true;
  readonly stream: boolean;
}

/** Whether the MTP head is loaded. */
const HEAD_OF = { off: false, auto: "optional", ngram: false, mtp: true } as const;

const EXAMPLES = examples([
  ['generate "It was a dark and stormy night"', "Go on with a text, with the built-in tiny model"],
  ["generate -m ./Qwen3.5-35B-A3B --chat 'Name three birds.'", "Ask a chat model"],
  ["generate --file prompt.txt -n 64 --temperature 0 --json", "Greedy, as JSON"],
  ["generate --spec auto --file long.txt", "Faster where drafts are often right, never other text"],
  ["generate --stop 'User:' --stop $'\\n\\n' < prompt.txt", "End before either text"],
]);

/** Adds the command to the program. */
export function addGenerate(program: Command, context: Context): void {
  program.command("generate")
    .description("Generate text from a prompt")
    .argument("[prompt]", "the prompt; - or none: standard input")
    .optionsGroup("Prompt:")
    .option("-f, --file <path>", "read the prompt from a file (one final line break is dropped)")
    .option("--chat", "put the prompt into the model's chat template")
    .option("--no-chat", "use the prompt as it is (default)")
    .option("--system <text>", "system message; implies --chat")
    .option("--think", "ask the chat template for a thinking answer")
    .option("--no-think", "ask the chat template for an answer without thinking")
    .optionsGroup("Model:")
    .addOption(FLAGS.model)
    .addOption(FLAGS.device)
    .addOption(FLAGS.threads)
    .addOption(FLAGS.ctx)
    .addOption(FLAGS.kv)
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .optionsGroup("Sampling (defaults: the model's generation_config.json):")
    .addOption(FLAGS.maxTokens)
    .addOption(FLAGS.temperature)
    .addOption(FLAGS.topK)
    .addOption(FLAGS.topP)
    .addOption(FLAGS.minP)
    .addOption(FLAGS.repeatPenalty)
    .addOption(FLAGS.seed)
    .addOption(FLAGS.stop)
    .optionsGroup("Speculation:")
    .addOption(FLAGS.spec)
    .addOption(FLAGS.draftTokens)
    .optionsGroup("Output:")
    .addOption(FLAGS.json)
    .option("--no-stream", "print the text when it is complete")
    .addHelpText("after", EXAMPLES)
    .action((prompt, flags) => runGenerate(context, prompt, flags));
}

async function runGenerate(context: Context, prompt: string | undefined, flags: Flags) {
  const text = await readText("prompt", { argument: prompt, file: flags.file }, context.terminal);
  if (text === "") throw new UserError("The prompt is empty");
  if (flags.spec === "off" && flags.draftTokens !== undefined) {
    throw new UserError("--draft-tokens needs drafts: give --spec auto, ngram or mtp");
  }
  refuseNullDevice(flags);
  using opened = await openModel(context, flags, { draftHead: HEAD_OF[flags.spec] });
  const { engine, model } = opened;
  const ids = promptIds(model, text, flags);
  const room = ids.length + flags.maxTokens;
  using session = engine.createSession(model, {
    ctx: flags.ctx,
    room,
    kv: flags.kv,
    ...model.hasDraftHead && { draftHead: true },
  });
  using interrupt = context.terminal.interrupt();
  const options: GenerateOptions = {
    prompt: ids,
    maxTokens: flags.maxTokens,
    sampling: sampling(model.tokenizer.sampling, flags),
    stopIds: model.tokenizer.stopIds,
    stopStrings: flags.stop,
    speculation: { drafter: flags.spec, drafts: flags.draftTokens },
    signal: interrupt.signal,
  };
  const { terminal } = context;
  const show = (text: string) => terminal.out(terminal.outIsTty ? terminalSafe(text) : text);
  const stream = flags.stream && !flags.json;
  const result = await play(opened, session, options, stream ? show : () => {});
  if (flags.json) terminal.out(json(report(model, options, result)));
  else if (!flags.stream) show(result.text);
  if (!flags.json && !result.text.endsWith("\n")) terminal.out("\n");
  terminal.err(summary(context, result));
  if (result.stopReason === "interrupted") context.exitCode = EXIT.interrupted;
}

function promptIds(model: Model, text: string, flags: Flags): Uint32Array {
  const chat = flags.chat ?? (flags.system !== undefined || flags.think !== undefined);
  if (!chat && (flags.system !== undefined || flags.think !== undefined)) {
    throw new UserError("--system and --think need the chat template: leave out --no-chat");
  }
  if (!chat) return model.tokenizer.encode(text);
  if (!model.chatTemplate) throw new UserError(`${model.name} has no chat template: use --no-chat`);
  const system = flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
  const rendered = renderChat(model.chatTemplate, {
    messages: [...system, { role: "user", content: text }],
    addGenerationPrompt: true,
    enableThinking: flags.think,
  });
  return model.tokenizer.encode(rendered, { special: false });
}

/** The model's sampling with what the flags say instead. */
function sampling(defaults: Sampling, flags: Flags): Sampling {
  return {
    temperature: flags.temperature ?? defaults.temperature,
    topK: flags.topK ?? defaults.topK,
    topP: flags.topP ?? defaults.topP,
    minP: flags.minP ?? defaults.minP,
    repeatPenalty: flags.repeatPenalty ?? defaults.repeatPenalty,
    repeatWindow: defaults.repeatWindow,
    seed: flags.seed,
  };
}

/** Runs the generation and gives each piece of text to `show`. */
async function play(
  { engine }: Opened,
  session: Session,
  options: GenerateOptions,
  show: (text: string) => void,
): Promise<GenerateResult> {
  const run = engine.generate(session, options);
  for (;;) {
    const step = await run.next();
    if (step.done) return step.value;
    if (step.value.text !== "") show(step.value.text);
  }
}

/** Rates count intervals: the first token belongs to the time to first token. */
function summary(context: Context, r: GenerateResult): string {
  const parts = [
    `prompt ${counted(r.promptTokens, "token")} at ${rate(r.promptTokens, r.prefillNs)}`,
    r.stopReason === "interrupted" && r.ids.length === 0
      ? "no first token"
      : `first token after ${duration(r.ttftNs)}`,
    `${counted(r.ids.length, "token")} made, decode ${rate(r.decodeIntervals, r.decodeNs)}`,
    ...(r.rounds ? [roundsSummary(r.rounds)] : []),
    r.stopReason.replaceAll("_", " "),
  ];
  return context.errPaint("dim", parts.join("; ")) + "\n";
}

function roundsSummary(r: RoundsReport): string {
  const share = r.drafted === 0 ? "" : ` (${Math.round(100 * r.accepted / r.drafted)} %)`;
  return `${counted(r.rounds, "round")}, ${r.accepted} of ${counted(r.drafted, "draft")} of ` +
    `${r.drafter} accepted${share}`;
}

function report(model: Model, options: GenerateOptions, r: GenerateResult): unknown {
  return {
    model: model.name,
    path: model.path,
    plan: model.plan,
    sampling: options.sampling,
    promptIds: options.prompt,
    ids: r.ids,
    text: r.text,
    stopReason: r.stopReason,
    promptTokens: r.promptTokens,
    prefillNs: r.prefillNs,
    prefillTokPerS: perSecond(r.promptTokens, r.prefillNs),
    ttftNs: r.ttftNs,
    decodeIntervals: r.decodeIntervals,
    decodeNs: r.decodeNs,
    decodeTokPerS: perSecond(r.decodeIntervals, r.decodeNs),
    ...r.rounds && { rounds: r.rounds },
  };
}
