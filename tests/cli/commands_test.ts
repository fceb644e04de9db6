/** The commands other than generate, over the fake engine. */
import assert from "node:assert/strict";
import { UserError } from "../../engine/errors.ts";
import { NativeError } from "../../ffi/abi/error.ts";
import { STATUS } from "../../ffi/abi/layout.ts";
import { tiny } from "../engine/tiny_files.ts";
import { fakeEngine, REPORT, type Script } from "./fake_engine.ts";
import { run, type Setup } from "./fake_terminal.ts";

async function command(argv: readonly string[], setup: Setup = {}, script: Script = {}) {
  const engine = fakeEngine(script);
  const ran = await run(argv, { engine, ...setup });
  assert.equal(engine.calls.alive, 0, "something was not disposed");
  return { ...ran, calls: engine.calls };
}

Deno.test("devices: a table, or JSON", async () => {
  const { out } = await command(["devices"]);
  assert.deepEqual(out.split("\n"), [
    "kind  name      kernels  threads   memory",
    "cpu   Some CPU  avx2           4  16.0 GB",
    "null  null      -              -        -",
    "",
  ]);
  const [cpu] = JSON.parse((await command(["devices", "--json"])).out);
  assert.equal(cpu.memory_bytes, 16e9);
});

Deno.test("inspect: every section; reasons and code 2 for what cannot run", async () => {
  const { code, out } = await command(["inspect"]);
  assert.equal(code, 0);
  for (
    const part of [
      /^tiny {2}qwen3_5_moe, MLX safetensors, \/models\/tiny\n24\.6M parameters, 15\.3M used/,
      /\nhidden {2}512\n/,
      /\nexperts +24 +9\.40M +5\.30 MB +1\.80 MB {2}q4g64_bf16\n/,
      /\n +0 {2}8\.00 MB +0 B {2}1\.60 MB {2}30\.0M\n/,
      /\n +4096 +f16 +12\.0 MB +8\.00 MB +800\.0 kB +1\.00 MB +22\.0 MB\n/,
      /\nnote: ignored 12 tensors of the vision tower\n/,
      /\nwarning: layer-0 norm mean is 0\.01\n$/,
    ]
  ) assert.match(out, part);
  const refused = await command(["inspect", "gpt"]);
  assert.equal(refused.code, 2);
  assert.match(refused.out, /\ncannot run: unknown architecture gpt2\n$/);
  const json = JSON.parse((await command(["inspect", "tiny", "--json"])).out);
  assert.equal(json.groups[0].bytes_per_token, 1.8e6);
  assert.deepEqual(json.config, REPORT.config);
});

Deno.test("explain: rows follow the phase unless given", async () => {
  const { out, calls } = await command(["explain"]);
  assert.equal(out, "   0   rms_norm\n");
  assert.deepEqual(calls.explain, {
    phase: "decode",
    rows: 1,
    depth: 0,
    kv: "f16",
    ctx: undefined,
  });
  const argv = ["explain", "--phase", "verify", "--rows", "8", "--depth", "99", "--ctx", "128"];
  const verify = await command(argv);
  assert.deepEqual(verify.calls.explain, {
    phase: "verify",
    rows: 8,
    depth: 99,
    kv: "f16",
    ctx: 128,
  });
});

Deno.test("explain: a synthetic model of the sizes that were asked for, without its weights", async () => {
  const { code, calls } = await command(["explain", "--synthetic", "7", "--layers", "4"]);
  assert.equal(code, 0);
  const { synthetic, outline } = calls.model!;
  const sizes = { layers: 4, experts: undefined, vocab: undefined };
  assert.deepEqual({ synthetic, outline }, {
    synthetic: { seed: 7, routing: "model", ...sizes },
    outline: true,
  });
  assert.equal((await command(["explain"])).calls.model!.synthetic, undefined);
  const stray = await command(["explain", "--layers", "4"]);
  assert.equal(stray.code, 2);
  assert.match(stray.err, /^error: --layers is for --synthetic models: add --synthetic\.\n$/);
});

Deno.test("bench: a sweep needs a device that computes", async () => {
  const { code, err } = await command(["bench", "--verify-sweep", "2-3", "--device", "null"]);
  assert.equal(code, 2);
  assert.match(err, /^error: --verify-sweep is not for the null device: /);
});

Deno.test("perplexity: text in, one line or JSON out", async () => {
  const text = "It was a bright morning in the spring.";
  const { code, out, calls } = await command(["perplexity", "--window", "16"], { stdin: text });
  assert.equal(code, 0);
  const n = tiny.encode(text).length;
  assert.equal(
    out,
    `perplexity 25.7900, loss 3.25000 nats a token, 1.5000 bits a byte, ` +
      `${n - 1} predictions, window 16\n`,
  );
  assert.deepEqual(calls.perplexity, {
    ids: tiny.encode(text),
    window: 16,
    textBytes: text.length,
  });
  const argv = ["perplexity", "--json", "--tokens", "4"];
  const json = JSON.parse((await command(argv, { stdin: text })).out);
  assert.equal(json.tokens, 4);
  assert.equal(json.bits_per_byte, 1.5);
  const short = await command(["perplexity"], { stdin: "a" });
  assert.equal(short.code, 2);
  assert.match(short.err, /fewer than two tokens/);
});

Deno.test("doctor: each check by itself, code 4 when one fails", async () => {
  const text = " the sun was shining brightly in the sunlight.";
  const well = await command(["doctor"], {}, { text });
  assert.equal(well.code, 0, well.out);
  assert.equal(well.calls.lists, 1);
  assert.match(
    well.out,
    /^ok {3}deno: [\d.]+\nok {3}devices: cpu avx2, null\n-- {3}metal: .*\n-- {3}cuda: .*\n-- {3}emulator: .*\n-- {3}apple: .*\nok {3}memory: .* free\nok {3}checkpoint: .*\n-- {3}models: .*\nok {3}generate: "the sun was.*"\n$/,
  );
  const ill = await command(["doctor"], {}, { failure: new UserError("No such model: tiny") });
  assert.equal(ill.code, 4);
  assert.match(
    ill.out,
    /\nok {3}checkpoint: .*\n-- {3}models: .*\nFAIL generate: No such model: tiny\n$/,
  );
  const found = JSON.parse((await command(["doctor", "--json"], {}, { text: " a" })).out);
  assert.deepEqual(
    found.map((f: { ok: boolean | null }) => f.ok),
    [true, true, null, null, null, null, true, true, null, false],
  );
});

Deno.test("device errors have code 3, refusals of native code 2", async () => {
  const lost = Object.values(STATUS).find((s) => s !== STATUS.ok && s !== STATUS.refused)!;
  const broken = await command(["generate", "x"], {}, {
    failure: new NativeError("device lost", lost, 17, 5),
  });
  assert.equal(broken.code, 3);
  assert.equal(broken.err, "error: device lost (record 17)\n");
  const refused = await command(["generate", "x"], {}, {
    failure: new NativeError("too large", STATUS.refused, null, 0),
  });
  assert.equal(refused.code, 2);
});

Deno.test("synth: a folder that cannot be written is one line with code 2", async () => {
  const empty = await command(["synth", "--out", ""]);
  assert.equal(empty.code, 2);
  assert.match(empty.err, /^error: --out is empty: give a folder/);
  const out = `${await Deno.makeTempDir()}/${"a".repeat(300)}`;
  const long = await command(["synth", "-m", "qwen35-0.8b", "--layers", "4", "--out", out]);
  assert.equal(long.code, 2);
  assert.match(long.err, /error: Cannot write .*: .*\n$/);
});

Deno.test("synth: sizes that cannot be are one line with code 2, before anything is written", async () => {
  const out = `${await Deno.makeTempDir()}/model`;
  const cases: [string[], RegExp][] = [
    [
      ["--experts", "3"],
      /^error: --experts 3: tiny chooses 4 for each token; .* Give 4 or more\.\n$/,
    ],
    [
      ["-m", "qwen35-9b", "--experts", "8"],
      /^error: qwen35-9b has no experts: .* Leave it out\.\n$/,
    ],
    [["--experts", "1025"], /^error: .*'1025' .* from 1 to 1024, such as 64\.\n$/],
    [["--layers", "0"], /^error: .*'0' .* from 1 to 512, such as 8\.\n$/],
    [["--layers", "513"], /^error: .*'513' .* from 1 to 512, such as 8\.\n$/],
    [["--layers", "2.5"], /^error: .*'2\.5' .* whole number/],
    [["--vocab", "15"], /^error: .*'15' .* from 16 to 4194304, such as 4096\.\n$/],
    [["--vocab", "99999999999999999999"], /^error: .* from 16 to 4194304, such as 4096\.\n$/],
  ];
  for (const [argv, told] of cases) {
    const ran = await command(["synth", ...argv, "--out", out]);
    assert.equal(ran.code, 2, argv.join(" "));
    assert.match(ran.err, told);
    await assert.rejects(Deno.stat(out), Deno.errors.NotFound);
  }
});

Deno.test("synth: an interrupt leaves nothing and has code 130", async () => {
  const out = `${await Deno.makeTempDir()}/model`;
  const ran = await command(["synth", "--out", out], { signal: AbortSignal.abort() });
  assert.equal(ran.code, 130);
  assert.match(ran.err, /\ninterrupted: nothing was left in .*\/model\n$/);
  assert.equal(ran.out, "");
  await assert.rejects(Deno.stat(out), Deno.errors.NotFound);
});

for (
  const [what, signals] of [
    ["Ctrl-C", ["SIGINT"]],
    ["Ctrl-C that arrives twice", ["SIGINT", "SIGINT"]],
    ["SIGTERM", ["SIGTERM"]],
  ] as const
) {
  Deno.test(`synth: ${what} in the real process leaves nothing`, async () => {
    const folder = await Deno.makeTempDir(), out = `${folder}/model`;
    const main = new URL("../../cli/main.ts", import.meta.url).pathname;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", main, "synth", "-m", "qwen35-9b", "--layers", "8", "--out", out],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const begun = () =>
      [...Deno.readDirSync(folder)].length > 0 && [...Deno.readDirSync(out)].length > 0;
    for (let i = 0; i < 4000 && !begun(); i++) await new Promise((wake) => setTimeout(wake, 5));
    for (const signal of signals) {
      child.kill(signal);
      await new Promise((wake) => setTimeout(wake, 1));
    }
    const { code, stderr } = await child.output();
    assert.equal(code, 130, new TextDecoder().decode(stderr));
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  });
}

Deno.test("synth: a path with .. is one folder to all that the real process does with it", async () => {
  const cwd = await Deno.makeTempDir();
  await Deno.mkdir(`${cwd}/far/inner`, { recursive: true });
  await Deno.symlink(`${cwd}/far/inner`, `${cwd}/link`);
  await Deno.mkdir(`${cwd}/out`);
  await Deno.writeTextFile(`${cwd}/out/config.json`, "theirs");
  const main = new URL("../../cli/main.ts", import.meta.url).pathname;
  // As `deno task synth` has it: with all permissions Deno leaves the paths of some of its calls as they are.
  const synth = async (out: string) => {
    const args = ["run", "-A", main, "synth", "--layers", "1", "--out", out];
    const { code, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd }).output();
    return { code, err: new TextDecoder().decode(stderr) };
  };
  const refused = await synth("link/../out");
  assert.equal(refused.code, 2);
  assert.match(refused.err, /^error: link\/\.\.\/out holds config\.json: give a folder .*\n$/);
  assert.equal(await Deno.readTextFile(`${cwd}/out/config.json`), "theirs");
  assert.equal((await synth("a/../b/")).code, 0);
  assert.deepEqual([...Deno.readDirSync(cwd)].map(({ name }) => name).sort(), [
    "b",
    "far",
    "link",
    "out",
  ]);
});
