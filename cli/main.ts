/**
 * The command line's entry: arguments to a command to an exit code. The only place that catches
 * everything and the only one that exits.
 */
import { CommanderError } from "commander";
import { expandShortFlags } from "./bench_flags.ts";
import { type Context, systemContext } from "./context.ts";
import { complaintOf, EXIT, type ExitCode } from "./exit.ts";
import { buildProgram } from "./program.ts";

/** Runs one command line and returns its exit code; never throws. */
export async function main(argv: readonly string[], context: Context): Promise<ExitCode> {
  try {
    await buildProgram(context).parseAsync(expandShortFlags(argv), { from: "user" });
    return context.exitCode;
  } catch (e) {
    // Commander has printed what it had to say; its code 0 is help or version.
    if (e instanceof CommanderError) return e.exitCode === 0 ? EXIT.ok : EXIT.usage;
    // A reader such as head has seen enough.
    if (e instanceof Deno.errors.BrokenPipe) return EXIT.ok;
    return complain(e, context, argv.includes("--debug") || context.env.LAPWING_DEBUG === "1");
  }
}

function complain(e: unknown, { terminal, errPaint }: Context, debug: boolean): ExitCode {
  const { code, lines } = complaintOf(e);
  terminal.err(`${errPaint("red", "error:")} ${lines.join("\n  ")}\n`);
  if (debug && e instanceof Error && e.stack) terminal.err(`${e.stack}\n`);
  return code;
}

if (import.meta.main) Deno.exit(await main(Deno.args, systemContext()));
