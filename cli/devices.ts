/** `lapwing devices`: what the native library can run on here. */
import type { Command } from "commander";
import type { Context } from "./context.ts";
import { FLAGS } from "./flags.ts";
import { examples } from "./help.ts";
import { bytes, json, table } from "./print.ts";

/** Adds the command to the program. */
export function addDevices(program: Command, context: Context): void {
  program.command("devices")
    .description("List the devices of the native library")
    .addOption(FLAGS.json)
    .addHelpText("after", examples([["devices --json", "For a script"]]))
    .action((flags) => runDevices(context, flags));
}

async function runDevices(context: Context, flags: { readonly json?: true }) {
  const devices = (await context.engine()).listDevices();
  if (flags.json) return context.terminal.out(json(devices));
  const columns = [
    { title: "kind" },
    { title: "name" },
    { title: "kernels" },
    { title: "threads", right: true },
    { title: "memory", right: true },
  ];
  const rows = devices.map((d) => [
    d.kind,
    d.name,
    d.isa || "-",
    d.threads ? String(d.threads) : "-",
    d.memoryBytes ? bytes(d.memoryBytes) : "-",
  ]);
  context.terminal.out(table(columns, rows, context.outPaint));
}
