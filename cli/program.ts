/** The program and its commands. Owns names, help and how usage errors look; runs nothing. */
import { Command } from "commander";
import denoJson from "../deno.json" with { type: "json" };
import { addBench } from "./bench.ts";
import { addCompare } from "./compare.ts";
import { addCompletions } from "./completions.ts";
import { addConvert } from "./convert.ts";
import type { Context } from "./context.ts";
import { addDevices } from "./devices.ts";
import { addDoctor } from "./doctor.ts";
import { addExplain } from "./explain.ts";
import { addGate } from "./gate.ts";
import { addGenerate } from "./generate.ts";
import { addInspect } from "./inspect.ts";
import { addPerplexity } from "./perplexity.ts";
import { addPlot } from "./plot.ts";
import { addProfile } from "./profile.ts";
import { addSynth } from "./synth.ts";
import { addWorker } from "./worker.ts";

const VERSION = (denoJson as { version?: string }).version ?? "0.0.0";

const EXIT_HELP = `
Exit codes: 0 done; 1 regression proven; 2 usage, configuration or model; 3 device;
4 a check failed; 5 inconclusive; 6 wrong environment; 70 unexpected; 130 interrupted.`;

/** Builds the commander program over a context; it throws instead of exiting. */
export function buildProgram(context: Context): Command {
  const { terminal, outPaint, errPaint } = context;
  const program = new Command("lapwing");
  program
    .description("Generate with hybrid language models, and measure it against the hardware")
    .version(VERSION, "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    .option("--debug", "print the stack of unexpected errors (or LAPWING_DEBUG=1)")
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      writeErr: (text) => terminal.err(text),
      getOutHasColors: () => terminal.outIsTty,
      getErrHasColors: () => terminal.errIsTty,
      // Suggestions come on a line of their own; an error is one line.
      outputError: (text, write) =>
        write(
          text.trimEnd().replaceAll("\n", " ").replace(/^error:/, errPaint("red", "error:")) + "\n",
        ),
    })
    .configureHelp({ styleTitle: (title) => outPaint("bold", title) })
    .addHelpText("after", EXIT_HELP);
  program.commandsGroup("Run:");
  addGenerate(program, context);
  program.commandsGroup("Look:");
  addInspect(program, context);
  addExplain(program, context);
  addDevices(program, context);
  program.commandsGroup("Measure:");
  addBench(program, context);
  addCompare(program, context);
  addGate(program, context);
  addProfile(program, context);
  addPerplexity(program, context);
  addPlot(program, context);
  addConvert(program, context);
  program.commandsGroup("Set up:");
  addSynth(program, context);
  addDoctor(program, context);
  addCompletions(program, context);
  addWorker(program, context);
  program.helpCommand("help [command]", "Print the help of a command");
  return program;
}
