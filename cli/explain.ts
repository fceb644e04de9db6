/** `lapwing explain`: the tape that one play would be, record by record. Plays nothing. */
import type { Command } from "commander";
import type { KvType, Phase } from "../engine/api_types.ts";
import type { Context } from "./context.ts";
import { FLAGS, type ModelFlags, PHASE_ROWS } from "./flags.ts";
import { examples } from "./help.ts";
import { openModel } from "./open_model.ts";

interface Flags extends ModelFlags {
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
        ["explain --plan actInt8=off --plan fused=on", "With float activations and joined records"],
      ]),
    )
    .action((flags) => runExplain(context, flags));
}

async function runExplain(context: Context, flags: Flags) {
  using opened = await openModel(context, flags);
  const text = await opened.engine.explainModel(opened.model, {
    phase: flags.phase,
    rows: flags.rows ?? PHASE_ROWS[flags.phase],
    depth: flags.depth,
    kv: flags.kv,
    ctx: flags.ctx,
  });
  context.terminal.out(text.endsWith("\n") ? text : text + "\n");
}
