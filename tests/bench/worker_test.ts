/** Worker processes that print, crash, lie or speak another protocol: each is an error of one row. */
import assert from "node:assert/strict";
import { UserError } from "../../engine/errors.ts";
import { OutputError } from "../../bench/pairs.ts";
import { SubjectError } from "../../bench/subject.ts";
import { WorkerSubject } from "../../bench/worker_client.ts";
import { environment } from "./documents.ts";
import { DECODE } from "./scripted.ts";

const REQUEST = {
  model: "tiny",
  synthetic: null,
  library: "/lib/liblapwing.so",
  device: "cpu",
  threads: 1,
  kv: "f16",
  quantize: null,
  plan: {},
  ctx: 512,
};

/** A program whose worker answers as `behave(request)` says. */
async function program(behave: string) {
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(`${folder}/cli`);
  await Deno.writeTextFile(`${folder}/deno.json`, "{}");
  const opened = { protocol: 1, env: environment(), model: null };
  await Deno.writeTextFile(
    `${folder}/cli/main.ts`,
    `const [command, path] = Deno.args;
if (command !== "worker") Deno.exit(9);
const opened = ${JSON.stringify(opened)};
const say = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(text));
const behave = (r: { call: string; repeats?: number }): unknown => { ${behave} };
const socket = await Deno.connect({ transport: "unix", path });
let rest = "";
for await (const text of socket.readable.pipeThrough(new TextDecoderStream())) {
  rest += text;
  for (let end; (end = rest.indexOf("\\n")) >= 0; rest = rest.slice(end + 1)) {
    const answer = behave(JSON.parse(rest.slice(0, end)));
    const line = typeof answer === "string" ? answer : JSON.stringify(answer);
    await socket.write(new TextEncoder().encode(line + "\\n"));
  }
}
`,
  );
  const subject = new WorkerSubject({ side: "head", program: folder, request: REQUEST });
  const remove = async () => {
    await subject[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  };
  return { subject, [Symbol.asyncDispose]: remove };
}

const SAMPLE = `if (r.call === "open") return { ok: opened };
if (r.call === "sample") return { ok: { ns: 1000 * r.repeats!, steps: 10, digest: "d" } };
return { ok: {} };`;

Deno.test("worker: what native code prints does not spoil an answer", async () => {
  await using p = await program(`say("{\\"ok\\":1}\\n".repeat(20000)); ${SAMPLE}`);
  await p.subject.prepare(DECODE);
  assert.deepEqual(await p.subject.sample(DECODE, 3), { ns: 3000, steps: 10, digest: "d" });
});

Deno.test("worker: a crash tells the signal and the last words, and the next row gets a new process", async () => {
  await using p = await program(
    `if (r.call === "sample" && r.repeats === 2) {
       say("lw: out of registers\\n");
       Deno.kill(Deno.pid, "SIGABRT");
       while (true);
     } ${SAMPLE}`,
  );
  await p.subject.prepare(DECODE);
  await assert.rejects(p.subject.sample(DECODE, 2), (e: SubjectError) => {
    assert.ok(e instanceof SubjectError);
    assert.equal(e.side, "head");
    assert.match(
      e.message,
      /^the worker was ended by SIGABRT; it last said: lw: out of registers$/,
    );
    return true;
  });
  await p.subject.prepare(DECODE);
  assert.equal((await p.subject.sample(DECODE, 1)).ns, 1000);
});

Deno.test("worker: one that ends before it connects is an error, not a wait", async () => {
  await using p = await program("");
  const gone = new WorkerSubject({ ...p.subject.launch, program: "/nowhere" });
  await assert.rejects(gone.prepare(DECODE), (e: Error) => e instanceof Error);
});

Deno.test("worker: refusals, changed output, device errors and nonsense keep apart", async () => {
  const errors: [string, new (...a: never[]) => Error][] = [
    [`{ error: "user", message: "no such model" }`, UserError],
    [`{ error: "output", message: "other tokens" }`, OutputError],
    [`{ error: "device", message: "lost" }`, SubjectError],
    [`"not JSON"`, SubjectError],
    [`{ ok: { ns: "fast" } }`, SubjectError],
  ];
  for (const [answer, kind] of errors) {
    await using p = await program(
      `if (r.call === "sample") return ${answer}; if (r.call === "open") return { ok: opened }; return { ok: {} };`,
    );
    await p.subject.prepare(DECODE);
    await assert.rejects(p.subject.sample(DECODE, 1), kind, answer);
  }
});

Deno.test("worker: a program of another protocol is refused by name", async () => {
  await using p = await program(`return { ok: { ...opened, protocol: 99 } };`);
  await assert.rejects(p.subject.opened(), /speaks another worker protocol/);
});
