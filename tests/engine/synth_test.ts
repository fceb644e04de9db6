/** The synthetic checkpoints that other tests and measurements run on. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { checkValues } from "../../engine/checkpoint/sanity.ts";
import { planWeights } from "../../engine/checkpoint/weights.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { generate } from "../../engine/generate.ts";
import { inspectCheckpoint } from "../../engine/inspect.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { syntheticModel } from "../../engine/synthetic/load.ts";
import { writeCheckpoint } from "../../engine/synthetic/write.ts";
import { unpackWeight } from "../../kernels/formats/affine.ts";
import { readRange } from "../../engine/checkpoint/tensor_data.ts";
import { writeSynthetic } from "../synth.ts";
import { smallDense, smallMoe } from "./fake_checkpoint.ts";

Deno.test("synth: a seed gives the same plannable bytes, another seed others", async () => {
  const root = await Deno.makeTempDir();
  try {
    for (const [kind, json] of [["dense", smallDense()], ["moe", smallMoe()]] as const) {
      const files: Uint8Array[] = [];
      for (const [i, seed] of [3, 3, 4].entries()) {
        const folder = join(root, `${kind}${i}`);
        await writeSynthetic(folder, json, { seed });
        const plan = planWeights(await openCheckpoint(folder));
        assert.deepEqual((await checkValues(plan)).warnings, []);
        assert(plan.weights.every((w) => w.source.kind !== "gathered"));
        files.push(await Deno.readFile(join(folder, "model.safetensors")));
      }
      assert.deepEqual(files[0], files[1]);
      assert.notDeepEqual(files[0], files[2]);
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("synth: products keep the size of their input", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await writeSynthetic(folder, smallMoe({ hidden_size: 512, vocab_size: 64 }), { seed: 5 });
    const plan = planWeights(await openCheckpoint(folder));
    for (const name of ["layers.0.gdn.qkv", "layers.0.moe.router"]) {
      const w = plan.weights.find((w) => w.name === name)!;
      assert(w.source.kind === "mapped");
      const [values, scales, biases] = await Promise.all(w.source.parts.map(readRange));
      const all = unpackWeight(w.format, { values, scales, biases });
      const power = all.reduce((sum, v) => sum + v * v, 0) / all.length * 512;
      assert(power > 0.8 && power < 1.25, `${name} ${power}`);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function names(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir(folder)) found.push(name);
  return found.sort();
}

async function there(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

Deno.test("synth: files have their names when all are whole, and none when one is not", async () => {
  const root = await Deno.makeTempDir();
  try {
    const source = join(root, "source");
    await writeSynthetic(source, smallDense());
    const model = await syntheticModel(source, {}, {});
    const write = (folder: string, onProgress: () => void, signal?: AbortSignal) =>
      writeCheckpoint(folder, model, { onProgress, signal, shardBytes: 50_000 });
    const out = join(root, "a", "b"), meanwhile: string[][] = [];
    await write(out, () => meanwhile.push([...Deno.readDirSync(out)].map(({ name }) => name)));
    assert(meanwhile.some((seen) => seen.length > 2));
    assert(meanwhile.flat().every((name) => /\.safetensors\.[0-9a-f]{8}\.tmp$/.test(name)));
    const whole = await names(out);
    assert(whole.includes("config.json") && whole.includes("model.safetensors.index.json"));
    assert(whole.every((name) => /\.(json|safetensors)$/.test(name)));

    const full = new Deno.errors.WriteZero("no room");
    let tensors = 0;
    const fail = () => {
      if (++tensors === 9) throw full;
    };
    await assert.rejects(write(join(root, "c", "d"), fail), (e) => e === full);
    assert(!await there(join(root, "c")));

    const stop = new AbortController(), own = join(root, "own");
    await Deno.mkdir(own);
    await assert.rejects(write(own, () => stop.abort(), stop.signal), { name: "AbortError" });
    assert.deepEqual(await names(own), []);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("synth: files of others stay, with their bytes, whether it fails or comes to its end", async () => {
  const root = await Deno.makeTempDir();
  try {
    const source = join(root, "source"), out = join(root, "out");
    await writeSynthetic(source, smallDense());
    const model = await syntheticModel(source, {}, {});
    const theirs = join(out, "model.safetensors");
    const meanwhile = () => Deno.writeTextFileSync(theirs, "theirs");
    const stop = new AbortController();
    const aborted = writeCheckpoint(out, model, {
      onProgress: () => (meanwhile(), stop.abort()),
      signal: stop.signal,
    });
    await assert.rejects(aborted, { name: "AbortError" });
    assert.deepEqual(await names(out), ["model.safetensors"]);
    const late = writeCheckpoint(out, model, { onProgress: meanwhile });
    await assert.rejects(late, Deno.errors.AlreadyExists);
    assert.deepEqual(await names(out), ["model.safetensors"]);
    assert.equal(await Deno.readTextFile(theirs), "theirs");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

const TINY = fileURLToPath(new URL("../../models/tiny-mlx-4bit", import.meta.url));
const FIXTURES = ["qwen35-dense-tiny", "qwen35-moe-tiny"].flatMap((name) => [
  fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url)),
  fileURLToPath(new URL(`../fixtures/${name}/mlx4`, import.meta.url)),
]);

for (const source of ["tiny", ...FIXTURES]) {
  for (const bits of [4, 8] as const) {
    Deno.test(`synth: config.json says how weights were written: ${source.split("/fixtures/").at(-1)}, ${bits} bits`, async () => {
      const folder = await Deno.makeTempDir();
      try {
        using device = openDevice({ kind: "cpu", threads: 1 });
        await writeCheckpoint(folder, await syntheticModel(source, { bits }, {}), { device });
        const json = JSON.parse(await Deno.readTextFile(join(folder, "config.json")));
        assert.equal(json.quantization.bits, bits);
        assert.deepEqual(json.quantization_config, json.quantization);
        // A rule of its own has what is stored otherwise than the rest, and nothing else.
        const rules = Object.values(json.quantization).filter((rule) => typeof rule === "object");
        const routers = bits === 4 && json.text_config.num_experts
          ? 2 * json.text_config.num_hidden_layers
          : 0;
        assert.deepEqual(rules, new Array(routers).fill({ group_size: 64, bits: 8 }));
        const report = await inspectCheckpoint(folder, {});
        assert.deepEqual(report.refusals, []);
        assert.deepEqual(report.warnings, ["no tokenizer.json: text cannot be used"]);
        assert(report.groups.some(({ formats }) => formats.includes(`q${bits}g64_bf16`)));
        const own = source === "tiny" ? TINY : null;
        if (own) await Deno.copyFile(join(own, "tokenizer.json"), join(folder, "tokenizer.json"));
        using model = await openModel(folder, { device, env: {} });
        using session = new Session(model, { ctx: 32 });
        const prompt = Uint32Array.of(5, 7, 9);
        if (!own) return assert((await session.forward(prompt, "logits")).every(Number.isFinite));
        const run = { prompt, maxTokens: 4, sampling: GREEDY, stopIds: [], stopStrings: [] };
        const ids: number[] = [];
        for await (const piece of generate(session, run)) ids.push(...piece.ids);
        assert.equal(ids.length, 4);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    });
  }
}

Deno.test("synth: what the source said of its own weights is not repeated, wherever it stood", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const fp8 = { quant_method: "fp8" }, { text_config, ...rest } = smallDense();
    await writeSynthetic(folder, {
      ...rest,
      compression_config: fp8,
      text_config: { ...text_config as object, quantization_config: fp8 },
    });
    assert.deepEqual((await inspectCheckpoint(folder, {})).refusals, []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
