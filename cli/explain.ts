/** `lapwing explain`: the tape that one play would be, record by record. Plays nothing. */
import type { Command } from "commander";
import type { KvType, Phase } from "../engine/api_types.ts";
import {
  SYNTHETIC,
  SYNTHETIC_FLAGS,
  type SyntheticFlags,
  syntheticOptionsOf,
} from "./bench_flags.ts";
import type { Context } from "./context.ts";
import { FLAGS, type ModelFlags, PHASE_ROWS } from "./flags.ts";
import { examples } from "./help.ts";
import { openModel } from "./open_model.ts";

interface Flags extends ModelFlags, SyntheticFlags {
  readonly phase: Phase;
  readonly rows?: number;
  readonly depth: number;
  readonly kv: KvType;
  readonly ctx?: number;
}

/** Adds the command to the program. */
export function addExplain(program: Command, context: Context): void {
  program.command("explain")
    .description("Print the tape of one play: every kernel, its shapes, bytes and waits")
    .addOption(FLAGS.model)
    .addOption(SYNTHETIC)
    .addOption(SYNTHETIC_FLAGS.layers)
    .addOption(SYNTHETIC_FLAGS.experts)
    .addOption(SYNTHETIC_FLAGS.vocab)
    .addOption(SYNTHETIC_FLAGS.routing)
    .addOption(FLAGS.phase)
    .addOption(FLAGS.rows)
    .addOption(FLAGS.depth)
    .addOption(FLAGS.kv)
    .addOption(FLAGS.ctx)
    .addOption(FLAGS.device)
    .addOption(FLAGS.threads)
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .addHelpText(
      "after",
      examples([
        ["explain", "What decoding one token plays"],
        ["explain --phase verify --rows 8 --depth 4096", "Checking eight drafted tokens"],
        [
          "explain -m qwen35-a3b --synthetic --device null",
          "An architecture without its checkpoint",
        ],
        ["explain --plan actInt8=off --plan fused=on", "With float activations and joined records"],
      ]),
    )
    .action((flags) => runExplain(context, flags));
}

async function runExplain(context: Context, flags: Flags) {
  const synthetic = syntheticOptionsOf(flags);
  using opened = await openModel(context, flags, { synthetic, outline: true });
  const text = await opened.engine.explainModel(opened.model, {
    phase: flags.phase,
    rows: flags.rows ?? PHASE_ROWS[flags.phase],
    depth: flags.depth,
    kv: flags.kv,
    ctx: flags.ctx,
  });
  context.terminal.out(text.endsWith("\n") ? text : text + "\n");
}
