/** Synthetic models: made on the device or written and read again, they are the same model. */
import assert from "node:assert/strict";
import type { OpenModelOptions } from "../../engine/api_types.ts";
import { explainModel } from "../../engine/explain.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { syntheticModel } from "../../engine/synthetic/load.ts";
import { zipfShares } from "../../engine/synthetic/recipe.ts";
import { SIZE_OF_ALIAS } from "../../engine/synthetic/sizes.ts";
import { writeCheckpoint } from "../../engine/synthetic/write.ts";
import { smallDense, smallMoe } from "./fake_checkpoint.ts";

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

type Synthetic = OpenModelOptions["synthetic"];

/** Logits of 20 tokens in one play. */
async function logits(name: string, synthetic?: Synthetic): Promise<Float32Array> {
  using device = openDevice({ kind: "cpu", threads: 1 });
  using model = await openModel(name, { device, env: {}, synthetic });
  using session = new Session(model, { ctx: 64 });
  const { vocab } = model.config;
  const ids = Uint32Array.from({ length: 20 }, (_, i) => i * 37 % vocab);
  return await session.forward(ids, "logits");
}

for (const [kind, json] of [["dense", smallDense()], ["moe", smallMoe()]] as const) {
  Deno.test(`synthetic: a written ${kind} checkpoint gives the bits of the one made on the device`, async () => {
    await withFolder(async (folder) => {
      const file = `${folder}/config.json`;
      await Deno.writeTextFile(file, JSON.stringify(json));
      for (const routing of kind === "moe" ? ["model", "zipf"] as const : ["model"] as const) {
        const asked = { seed: 11, routing };
        const made = await logits(folder, asked);
        const model = await syntheticModel(folder, asked, {});
        await writeCheckpoint(`${folder}/${routing}`, model, { shardBytes: 50_000 });
        assert.deepEqual(await logits(`${folder}/${routing}`), made);
        const other = await logits(folder, { ...asked, seed: 12 });
        assert.notDeepEqual(other, made);
        const power = made.reduce((sum, v) => sum + v * v, 0) / made.length;
        assert(power > 0.3 && power < 3, `logits have a mean square of ${power}`);
      }
    });
  });
}

Deno.test("synthetic: a device writes the files that are written without one", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(smallMoe()));
    const model = await syntheticModel(folder, { seed: 5, bits: 8 }, {});
    using device = openDevice({ kind: "cpu", threads: 2 });
    await writeCheckpoint(`${folder}/without`, model, { shardBytes: 50_000 });
    await writeCheckpoint(`${folder}/with`, model, { device, shardBytes: 50_000 });
    const names = [...Deno.readDirSync(`${folder}/without`)].map(({ name }) => name);
    assert(names.length > 8);
    assert.equal([...Deno.readDirSync(`${folder}/with`)].length, names.length);
    for (const name of names) {
      const [one, other] = ["without", "with"].map((f) =>
        Deno.readFileSync(`${folder}/${f}/${name}`)
      );
      assert.deepEqual(one, other, name);
    }
    assert.equal(device.use.now, 0);
  });
});

Deno.test("synthetic: fewer layers, experts and ids; every alias has a size", async () => {
  for (const alias of Object.keys(SIZE_OF_ALIAS)) {
    const full = await syntheticModel(alias, {}, {});
    const small = await syntheticModel(alias, { layers: 5, vocab: 1024 }, {});
    assert.equal(small.config.layers, 5);
    assert.deepEqual(small.config.layerKinds, full.config.layerKinds.slice(0, 5));
    assert.equal(small.config.vocab, 1024);
    assert.equal(small.config.hidden, full.config.hidden);
  }
  const few = await syntheticModel("qwen35-a3b", { experts: 16 }, {});
  assert.equal(few.config.experts, 16);
  await assert.rejects(syntheticModel("qwen35-4b", { routing: "zipf" }, {}), /has no experts/);
  const refused: [string, number, RegExp][] = [
    [
      "qwen35-4b",
      8,
      /^UserError: qwen35-4b has no experts: --experts 8 means nothing\. Leave it out\.$/,
    ],
    [
      "qwen35-a3b",
      7,
      /^UserError: --experts 7: qwen35-a3b chooses 8 for each token; .*\. Give 8 or more\.$/,
    ],
    ["tiny", 3, /^UserError: --experts 3: tiny chooses 4 /],
  ];
  for (const [name, experts, told] of refused) {
    await assert.rejects(syntheticModel(name, { experts }, {}), told);
  }
});

Deno.test("synthetic: an outlined model is explained as the made one is, and takes no memory", async () => {
  using device = openDevice({ kind: "null" });
  const play = { phase: "decode", rows: 1, depth: 300, kv: "f16" } as const;
  const explained = async (synthetic: Synthetic, outline: boolean) => {
    using model = await openModel("qwen35-a3b", { device, env: {}, synthetic, outline });
    return { text: await explainModel(model, play), bytes: device.use.now };
  };
  const small = { layers: 4, experts: 16, vocab: 512, routing: "zipf" } as const;
  const made = await explained(small, false), outlined = await explained(small, true);
  assert.equal(outlined.text, made.text);
  assert(outlined.bytes < 4096 && made.bytes > 1e6, `${outlined.bytes} of ${made.bytes} bytes`);
  using model = await openModel("qwen35-a3b", { device, env: {}, synthetic: small, outline: true });
  const far = explainModel(model, { ...play, ctx: model.config.contextMax + 1 });
  await assert.rejects(far, /takes 1 to \d+\. Give --ctx/);
  const whole = await explained({}, true);
  assert(whole.bytes < 4096, `${whole.bytes} bytes`);
  assert.match(whole.text, /\nbytes per play at depth 300: weights \d{10}, /);
});

Deno.test("synthetic: the least sizes, and odd ones, are played", async () => {
  for (
    const sizes of [{ layers: 1, experts: 4, vocab: 16 }, { layers: 5, experts: 5, vocab: 17 }]
  ) {
    const made = await logits("tiny", sizes);
    assert.equal(made.length, 20 * sizes.vocab);
    assert(made.every(Number.isFinite));
  }
});

Deno.test("synthetic: zipf shares fall as 1 / rank and add up to the chosen experts", () => {
  const shares = zipfShares(256, 8);
  assert(Math.abs(shares.reduce((a, b) => a + b) - 8) < 1e-9);
  assert.equal(shares[0], 0.45);
  assert(Math.abs(shares[99] / shares[199] - 2) < 1e-9);
});

/** Uses of the busiest expert over the mean. */
async function imbalance(folder: string, routing: "uniform" | "zipf"): Promise<number> {
  using device = openDevice({ kind: "cpu" });
  using model = await openModel(folder, { device, env: {}, synthetic: { routing } });
  using session = new Session(model, { ctx: 512 });
  const { vocab, experts, layers } = model.config;
  const ids = Uint32Array.from({ length: 300 }, (_, i) => i * 7919 % vocab);
  await session.forward(ids, "none", { tapRouting: true });
  let sum = 0;
  for (let layer = 0; layer < layers; layer++) {
    const uses = new Array<number>(experts).fill(0);
    for (const e of session.readRouting(layer, ids.length)) uses[e]++;
    sum += Math.max(...uses) * experts / uses.reduce((a, b) => a + b);
  }
  return sum / layers;
}

Deno.test("synthetic: zipf routing favours experts, uniform routing does not", async () => {
  await withFolder(async (folder) => {
    const json = smallMoe({ num_experts: 32, num_experts_per_tok: 4, hidden_size: 256 });
    await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(json));
    const uniform = await imbalance(folder, "uniform"), zipf = await imbalance(folder, "zipf");
    assert(uniform < 2, `uniform ${uniform}`);
    // The largest share is 0.45 where the mean is 4 / 32.
    assert(zipf > 2.2 && zipf < 5.5, `zipf ${zipf}`);
  });
});
