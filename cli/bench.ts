/** `lapwing bench`: flags to a benchmark's settings. Measures nothing itself. */
import type { Command } from "commander";
import type { Context } from "./context.ts";
import { FLAGS } from "./flags.ts";
import { examples } from "./help.ts";

/** Adds the command to the program. */
export function addBench(program: Command, _context: Context): void {
  program.command("bench")
    .description("Measure prefill and decode against what the hardware allows")
    .addOption(FLAGS.model)
    .addOption(FLAGS.device)
    .addOption(FLAGS.threads)
    .addOption(FLAGS.kv)
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .addHelpText("after", examples([["bench -m tiny", "The built-in model"]]))
    .action(() => {
      throw new Error("The benchmark is not connected to the command line");
    });
}
