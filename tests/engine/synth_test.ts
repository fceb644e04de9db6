/** The synthetic checkpoints that other tests and measurements run on. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { checkValues } from "../../engine/checkpoint/sanity.ts";
import { planWeights } from "../../engine/checkpoint/weights.ts";
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
