/** `lapwing perplexity`: how well a model predicts a text. */
import type { Command } from "commander";
import type { KvType } from "../engine/api_types.ts";
import { UserError } from "../engine/errors.ts";
import { counted } from "../engine/wording.ts";
import type { Context } from "./context.ts";
import { FLAGS, type ModelFlags, whole } from "./flags.ts";
import { examples } from "./help.ts";
import { openModel, refuseNullDevice } from "./open_model.ts";
import { json } from "./print.ts";
import { ProgressBar } from "./progress.ts";
import { readText } from "./prompt.ts";

interface Flags extends ModelFlags {
  readonly window: number;
  readonly tokens?: number;
  readonly kv: KvType;
  readonly json?: true;
}

/** Adds the command to the program. */
export function addPerplexity(program: Command, context: Context): void {
  program.command("perplexity")
    .description("Measure how well a model predicts a text")
    .argument("[file]", "the text; - or none: standard input")
    .option(
      "--window <tokens>",
      "tokens of context at most",
      whole({ min: 2, example: "1024" }),
      1024,
    )
    .option(
      "--tokens <n>",
      "use only the first n tokens of the text",
      whole({ min: 2, example: "4096" }),
    )
    .addOption(FLAGS.model)
    .addOption(FLAGS.device)
    .addOption(FLAGS.threads)
    .addOption(FLAGS.kv)
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .addOption(FLAGS.json)
    .addHelpText(
      "after",
      examples([
        ["perplexity heldout.txt", "The built-in model on a text"],
        ["perplexity heldout.txt --kv q8", "What a smaller KV cache costs"],
      ]),
    )
    .action((file, flags) => runPerplexity(context, file, flags));
}

async function runPerplexity(context: Context, file: string | undefined, flags: Flags) {
  const text = await readText("text", { file: file === "-" ? undefined : file }, context.terminal);
  refuseNullDevice(flags);
  using opened = await openModel(context, flags);
  const { engine, model } = opened;
  const ids = model.tokenizer.encode(text).subarray(0, flags.tokens);
  if (ids.length < 2) throw new UserError("The text has fewer than two tokens: nothing to predict");
  using session = engine.createSession(model, { ctx: flags.window, kv: flags.kv });
  using bar = new ProgressBar(context.terminal);
  const result = await engine.perplexity(session, ids, {
    window: flags.window,
    textBytes: new TextEncoder().encode(model.tokenizer.decode(ids, { special: true })).length,
    onProgress: (p) => bar.update(p),
  });
  bar[Symbol.dispose]();
  if (flags.json) {
    const { name, path, plan } = model;
    const settings = { kv: flags.kv, window: flags.window, tokens: ids.length };
    return context.terminal.out(json({ model: name, path, plan, ...settings, ...result }));
  }
  const perByte = result.bitsPerByte === undefined
    ? ""
    : `, ${result.bitsPerByte.toFixed(4)} bits a byte`;
  context.terminal.out(
    `perplexity ${result.perplexity.toFixed(4)}, loss ${result.nll.toFixed(5)} nats a token` +
      `${perByte}, ${counted(result.predictions, "prediction")}, window ${flags.window}\n`,
  );
}
