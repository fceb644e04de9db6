/**
 * `lapwing worker`: what a comparison starts to be measured. Hidden: people have no use for it. Talks over
 * the socket that it is given, so that nothing printed can spoil an answer.
 */
import type { Command } from "commander";
import { LineChannel } from "../bench/lines.ts";
import { serveWorker } from "../bench/worker.ts";
import { WORKER_COMMAND } from "../bench/worker_protocol.ts";
import type { Context } from "./context.ts";

/** Adds the command to the program. */
export function addWorker(program: Command, context: Context): void {
  program.command(`${WORKER_COMMAND} <socket>`, { hidden: true })
    .description("Run one side of a comparison")
    .action((socket) => runWorker(context, socket));
}

async function runWorker(context: Context, path: string) {
  // Ctrl-C reaches the whole process group; the comparison ends its workers in its own order.
  using _interrupt = context.terminal.interrupt();
  const { openWorkerEngine } = await import("../bench/worker_engine.ts");
  using channel = new LineChannel(await Deno.connect({ transport: "unix", path }));
  await serveWorker(channel, (request) => openWorkerEngine(request, context.env));
}
