/** Ten lines of lapwing as a library; run with `deno run -A examples/generate.ts`. */
import { generate, GREEDY, openDevice, openModel, Session } from "../mod.ts";

using device = openDevice({ kind: "cpu" });
using model = await openModel("tiny", { device, env: {} });
using session = new Session(model);
const prompt = model.tokenizer.encode("Once upon a time");
const { stopIds } = model.tokenizer;
const run = { prompt, maxTokens: 20, sampling: GREEDY, stopIds, stopStrings: [] };
for await (const { text } of generate(session, run)) {
  Deno.stdout.writeSync(new TextEncoder().encode(text));
}
console.log();
