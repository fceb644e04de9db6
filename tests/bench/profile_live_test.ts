/** `lapwing profile` over the built-in model on the CPU: what is timed, from which state, and what is refused. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { LiveEngine } from "../../bench/live.ts";
import { LivePlay } from "../../bench/live_play.ts";
import { type Profile, profileSchema } from "../../bench/profile_report.ts";
import { Prompt } from "../../bench/prompt.ts";
import { placesOf } from "../../bench/record_places.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { run } from "../cli/fake_terminal.ts";

const SHAPES = [
  { phase: "decode", rows: 1, n_depth: 300 },
  { phase: "prefill", rows: 40, n_depth: 70 },
  { phase: "verify", rows: 6, n_depth: 70 },
] as const;

/** Every state that later plays depend on, caches included. */
function states({ session }: LiveEngine): string {
  return [...session.readStates()].map(([name, bytes]) => `${name} ${bytes.join()}`).join("\n");
}

for (const shape of SHAPES) {
  Deno.test(`profile: each ${shape.phase} play does the same work, profiled or plain`, async () => {
    using device = openDevice({ kind: "cpu", threads: 2 });
    using model = await openModel("tiny", { device, env: {} });
    const prompt = new Prompt({ tokens: "random", seed: 5, vocab: model.vocabUsed });
    const settings = { threads: 2, kv: "f16", prefillRows: shape.rows } as const;
    using engine = new LiveEngine(model, settings, prompt, 512);
    const play = await LivePlay.open(engine, shape);
    await play.rewind();
    await play.plain();
    const plain = states(engine), seen = new Set<string>();
    for (let i = 0; i < 3; i++) {
      await play.rewind();
      const ns = play.profile();
      assert.equal(ns.length, play.records().length);
      seen.add(states(engine));
    }
    assert.equal(seen.size, 1);
    // A plain decode goes on over more tokens than one.
    if (shape.phase !== "decode") assert.deepEqual([...seen], [plain]);
    assert(play.bytes() > 0);
    assert.match(await play.hash(), /^[0-9a-f]{64}$/);
  });
}

Deno.test("profile: every record belongs to a layer or an end, the head's to the head", async () => {
  using device = openDevice({ kind: "cpu", threads: 1 });
  using model = await openModel("tiny", { device, env: {}, draftHead: true });
  const prompt = new Prompt({ tokens: "random", seed: 5, vocab: model.vocabUsed });
  using engine = new LiveEngine(model, { threads: 1, kv: "f16", prefillRows: 64 }, prompt, 512);
  await engine.fill(0);
  const { layerKinds } = model.config;
  const { planned } = engine.session.tapeFor(4, 4, "round", 3);
  const places = placesOf(planned, layerKinds);
  assert.deepEqual(
    new Set(places.filter((p) => p.layer !== null).map((p) => p.layer)),
    new Set(layerKinds.keys()),
  );
  places.forEach(({ part, layer }, i) => {
    const { op } = planned.records[i];
    if (op.name.startsWith("gdn_")) assert.equal(part, "gdn", `record ${i}`);
    if (op.name === "attn_gate") assert(part === "attention" || part === "head", `record ${i}`);
    if (["sample", "spec_accept"].includes(op.name)) assert.equal(part, "ends", `record ${i}`);
    if (layer !== null) assert.equal(part, layerKinds[layer]);
  });
  assert.equal(places[0].part, "ends");
  assert.equal(places.at(-1)!.part, "head");
});

const profiled = (args: readonly string[]) =>
  run(["profile", ...args], { env: { HF_HOME: "/nowhere" } });

Deno.test("profile: JSON by its schema, the table on the other stream", async () => {
  for (const { phase, rows, n_depth } of SHAPES) {
    const argv = ["--phase", phase, "--rows", String(rows), "--depth", String(n_depth)];
    const { code, out, err } = await profiled([
      ...argv,
      "-r",
      "2",
      "--threads",
      "2",
      "--json",
      "-",
    ]);
    assert.equal(code, 0, err);
    const profile: Profile = v.parse(profileSchema, JSON.parse(out));
    assert.match(err, new RegExp(`\\n${phase}: .*\\n.*\\nop +records`));
    assert.deepEqual([profile.spec.rows, profile.spec.n_depth], [rows, n_depth]);
    assert.equal(profile.step.plays_per_call, phase === "decode" ? 32 : 1);
    const sum = profile.records.reduce((s, r) => s + r.ns, 0);
    assert(sum > 0 && Math.abs(sum - profile.sum_ns) < 1e-6 * sum);
    assert(Math.abs(profile.step.ns - profile.sum_ns - profile.gap_ns) < 1e-6 * profile.step.ns);
    const weights = profile.records.reduce((s, r) => s + r.bytes.weights, 0);
    assert(weights > 1e6);
    // Keys and values of the depth are read.
    assert(profile.records.some((r) => r.bytes.kv > 2 * n_depth));
    const counts = [profile.by_op, profile.by_layer, profile.by_part]
      .map((groups) => groups.reduce((s, g) => s + g.records, 0));
    assert.deepEqual(counts, new Array(3).fill(profile.records.length));
  }
});

Deno.test("profile: an architecture without its weights, by record", async () => {
  const model = ["-m", "qwen35-0.8b", "--synthetic", "--layers", "4", "--vocab", "4096"];
  const { code, out, err } = await profiled([...model, "-r", "1", "--by", "record"]);
  assert.equal(code, 0, err);
  assert.match(out, /^qwen35-0\.8b \(synthetic\), /);
  assert.match(out, /\n *\d+ +\| +gemv\w* +3 attention /);
});

Deno.test("profile: what cannot be timed, or cannot be, is told in one line", async () => {
  const cases: [string[], RegExp][] = [
    [["--device", "null"], /--device null computes nothing, so no record of it takes time\./],
    [["--device", "emu"], /--device emu .*: its times say nothing about a GPU\. Give cpu, cuda or/],
    [["--rows", "2"], /Decode has one row; give --rows 1\./],
    [["--phase", "verify", "--rows", "17"], /Verify has 2 to 16 rows, not 17\./],
    [["--depth", "50", "--ctx", "60"], /--ctx 60 is too small: .* Give --ctx 83 or more\./],
    [["--experts", "3"], /--experts is for --synthetic models: add --synthetic\./],
    [["-r", "0"], /whole number from 1 to 1000, such as 20\./],
    [["--by", "kernel"], /Allowed choices are op, layer, record\./],
    [
      ["--json", "/nowhere/p.json"],
      /Cannot write \/nowhere\/p\.json: there is no folder \/nowhere/,
    ],
  ];
  for (const [argv, expected] of cases) {
    const { code, out, err } = await profiled(argv);
    assert.equal(code, 2, argv.join(" "));
    assert.equal(out, "");
    assert.match(err, /^error: [^\n]+\n$/);
    assert.match(err, expected);
  }
});
