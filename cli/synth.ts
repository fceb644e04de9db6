/** `lapwing synth`: a checkpoint of random weights on disk. Flags in, a folder out. */
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Progress } from "../engine/api_types.ts";
import { UserError } from "../engine/errors.ts";
import type { SyntheticOptions } from "../engine/synthetic/load.ts";
import { SYNTHETIC_FLAGS } from "./bench_flags.ts";
import type { Context } from "./context.ts";
import { EXIT } from "./exit.ts";
import { FLAGS, whole } from "./flags.ts";
import { examples } from "./help.ts";
import { noteTo } from "./notes.ts";
import { bytes } from "./print.ts";
import { ProgressBar } from "./progress.ts";

interface Flags extends Pick<SyntheticOptions, "layers" | "experts" | "vocab" | "routing"> {
  readonly model: string;
  readonly out: string;
  readonly seed: number;
  readonly quantize?: 4 | 8;
}

const EXAMPLES = examples([
  [
    "synth -m qwen35-0.8b --out ./random-0.8b",
    "True shapes, random weights, as MLX would store them",
  ],
  ["synth -m qwen35-a3b --layers 4 --experts 32 --out ./small-moe", "A small relative"],
]);

/** Adds the command to the program. */
export function addSynth(program: Command, context: Context): void {
  program.command("synth")
    .description("Write a checkpoint of random weights for a named architecture")
    .requiredOption("--out <folder>", "where to; must be empty or not there yet")
    .addOption(FLAGS.model)
    .addOption(SYNTHETIC_FLAGS.layers)
    .addOption(SYNTHETIC_FLAGS.experts)
    .addOption(SYNTHETIC_FLAGS.vocab)
    .addOption(SYNTHETIC_FLAGS.routing)
    .option("--seed <n>", "of the weights", whole({ min: 0, max: 2 ** 32 - 1, example: "42" }), 0)
    .addOption(FLAGS.quantize)
    .addHelpText("after", EXAMPLES)
    .action((flags) => runSynth(context, flags));
}

async function runSynth(context: Context, flags: Flags) {
  const { terminal, env } = context;
  const { syntheticBytes, syntheticModel } = await import("../engine/synthetic/load.ts");
  const { writeCheckpoint } = await import("../engine/synthetic/write.ts");
  const { openDevice } = await import("../engine/model.ts");
  const { model: name, out, seed, quantize, layers, experts, vocab, routing } = flags;
  const options = { seed, bits: quantize, layers, experts, vocab, routing };
  const model = await syntheticModel(name, options, env);
  if (out === "") {
    throw new UserError("--out is empty: give a folder that is empty or not there yet.");
  }
  await refuseFull(out);
  if (model.note) noteTo(context)(model.note);
  terminal.err(`writing ${bytes(syntheticBytes(model))} to ${out}\n`);
  using interrupt = terminal.interrupt();
  using bar = new ProgressBar(terminal);
  using device = openDevice({ kind: "cpu" });
  const { signal } = interrupt, onProgress = (p: Progress) => bar.update(p);
  const written = await writeCheckpoint(out, model, { device, signal, onProgress }).catch((e) => {
    if (signal.aborted) return null;
    throw unwritten(out, e);
  });
  bar[Symbol.dispose]();
  if (written === null) {
    terminal.err(`interrupted: nothing was left in ${out}\n`);
    context.exitCode = EXIT.interrupted;
    return;
  }
  terminal.out(`${out}: ${bytes(written)} of tensors, seed ${seed}\n`);
}

/** What the file system said as a line; anything else as it is. */
function unwritten(folder: string, e: unknown): unknown {
  const known = Object.values(Deno.errors).some((Known) => e instanceof Known) ||
    e instanceof Error && e.message.includes("(os error ");
  if (!known) return e;
  const why = (e as Error).message;
  return new UserError(
    `Cannot write ${folder}: ${why}. Give a folder that may be written and has room for it.`,
  );
}

/** Never writes among files of others. Looks where the files will be: see UnfinishedFiles.begin. */
async function refuseFull(folder: string): Promise<void> {
  try {
    for await (const { name } of Deno.readDir(resolve(folder))) {
      throw new UserError(`${folder} holds ${name}: give a folder that is empty or not there yet.`);
    }
  } catch (e) {
    if (e instanceof Deno.errors.NotADirectory) {
      throw new UserError(`${folder} is a file, or lies in one: give a folder.`);
    }
    if (!(e instanceof Deno.errors.NotFound)) throw unwritten(folder, e);
  }
}
