/** The real process around an engine that takes its time: for the interrupt test. */
import { makeContext } from "../../cli/context.ts";
import { main } from "../../cli/main.ts";
import { systemTerminal } from "../../cli/terminal.ts";
import { fakeEngine } from "./fake_engine.ts";

const engine = fakeEngine({ text: " and so it went on".repeat(200), delayMs: 20 });
const context = makeContext(systemTerminal(), {}, () => Promise.resolve(engine));
Deno.exit(await main(Deno.args, context));
