/** Checkpoint folders: which files count, and what is said about folders that cannot be opened. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { planWeights } from "../../engine/checkpoint/weights.ts";
import { writeSafetensors } from "../safetensors_writer.ts";
import { type Heads, publishedTensors, refusal, smallDense } from "./fake_checkpoint.ts";

const CONFIG = JSON.stringify(smallDense());

/** Runs on a fresh folder with these texts in it; `/m` stands for the folder in messages. */
async function inFolder(
  texts: Readonly<Record<string, string>>,
  run: (folder: string, refused: (path?: string) => Promise<string>) => Promise<void>,
): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  try {
    for (const [name, text] of Object.entries(texts)) {
      await Deno.writeTextFile(join(folder, name), text);
    }
    await run(folder, async (path = "") => {
      const e = await refusal(() => openCheckpoint(join(folder, path)));
      return e.message.replaceAll(folder, "/m");
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Writes the small dense model in shards; returns the index JSON. */
async function writeShards(
  folder: string,
  heads: Heads,
  names: readonly string[],
): Promise<string> {
  const all = [...heads.values()], each = Math.ceil(all.length / names.length);
  const map: Record<string, string> = {};
  for (const [i, name] of names.entries()) {
    const part = all.slice(i * each, (i + 1) * each);
    for (const t of part) map[t.name] = name;
    await writeSafetensors(join(folder, name), part, { format: "pt" });
  }
  return JSON.stringify({ metadata: {}, weight_map: map });
}

Deno.test("folder: what is not there, or not a checkpoint, is told in one line", async () => {
  await inFolder({}, async (folder, refused) => {
    const give = "Give a Hugging Face or MLX folder with config.json and safetensors files.";
    assert.equal(
      await refused("gone"),
      "Cannot open checkpoint /m/gone: there is no such file or folder; " +
        "expected a folder or a .safetensors file. Check the path.",
    );
    assert.equal(await refused(), `/m is empty; expected a checkpoint folder. ${give}`);
    await Deno.writeTextFile(join(folder, "notes.txt"), "");
    assert.equal(await refused(), `/m has no config.json; expected a checkpoint folder. ${give}`);
    assert.equal(
      await refused("notes.txt"),
      `/m/notes.txt is a file; expected a folder or a .safetensors file. ${give}`,
    );
    assert.match(await refused("notes.txt/x"), /^(Cannot read|Cannot open) checkpoint/);
    await Deno.writeTextFile(join(folder, "a.gguf"), "");
    assert.match(await refused(), /^\/m holds a GGUF file, which is not supported, and no config/);
    assert.match(await refused("a.gguf"), /is a GGUF file, which is not supported;/);
  });
});

Deno.test("folder: config.json without tensors, or not JSON", async () => {
  await inFolder({ "config.json": CONFIG }, async (folder, refused) => {
    const expected = "expected model.safetensors or its index.";
    assert.match(await refused(), new RegExp(`^/m has no safetensors file; ${expected} Give`));
    await Deno.writeTextFile(join(folder, "pytorch_model.bin"), "");
    assert.match(
      await refused(),
      /^\/m has no safetensors file, only pytorch_model\.bin; expected/,
    );
    await Deno.writeTextFile(join(folder, "a.safetensors"), "");
    await Deno.writeTextFile(join(folder, "b.safetensors"), "");
    assert.match(await refused(), /^\/m has 2 safetensors files and no index; expected/);
    await Deno.writeTextFile(join(folder, "config.json"), "{");
    assert.match(
      await refused("a.safetensors"),
      /^\/m\/config\.json is not valid JSON \(.*\); expected/,
    );
    await Deno.writeTextFile(join(folder, "config.json"), "[]");
    assert.match(await refused("a.safetensors"), /^\/m\/config\.json is not a JSON object;/);
    await Deno.remove(join(folder, "config.json"));
    assert.match(
      await refused("a.safetensors"),
      /^\/m\/config\.json is missing; expected it beside/,
    );
  });
});

Deno.test("folder: shards through an index, one of them with a name of its own", async () => {
  await inFolder({ "config.json": CONFIG, "tokenizer.json": "{}" }, async (folder, refused) => {
    const heads = publishedTensors(false);
    const names = [
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "mtp.safetensors",
    ];
    const index = await writeShards(folder, heads, names);
    await Deno.writeTextFile(join(folder, "model.safetensors.index.json"), index);
    const checkpoint = await openCheckpoint(folder);
    assert.deepEqual(checkpoint.files.map((f) => f.path), names.map((n) => join(folder, n)));
    assert.deepEqual(checkpoint.texts, { "tokenizer.json": join(folder, "tokenizer.json") });
    assert.equal(planWeights(checkpoint).weights.length, heads.size);

    assert.equal(
      await refused(names[0]),
      "/m/model-00001-of-00002.safetensors is one of 2 shards; expected a whole checkpoint. " +
        "Give the folder /m.",
    );
    await Deno.remove(join(folder, names[1]));
    assert.equal(
      await refused(),
      "/m lacks 1 of its safetensors files: model-00002-of-00002.safetensors; " +
        "expected all 3 that it names. Finish the download.",
    );
    await Deno.symlink(join(folder, "nowhere"), join(folder, names[1]));
    assert.match(await refused(), /^\/m\/model-00002-of-00002\.safetensors is missing; expected/);
  });
});

Deno.test("folder: shards without an index must be complete", async () => {
  await inFolder({ "config.json": CONFIG }, async (folder, refused) => {
    const names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    await writeShards(folder, publishedTensors(false), names);
    assert.equal(planWeights(await openCheckpoint(folder)).weights.length, 56);
    await Deno.remove(join(folder, names[0]));
    assert.match(await refused(), /^\/m lacks 1 of its safetensors files: model-00001-of-00002/);
  });
});

Deno.test("folder: an index must fit its files and stay in its folder", async () => {
  await inFolder({ "config.json": CONFIG }, async (folder, refused) => {
    const write = (map: unknown) =>
      Deno.writeTextFile(
        join(folder, "model.safetensors.index.json"),
        JSON.stringify({ weight_map: map }),
      );
    await writeShards(folder, publishedTensors(false), ["model.safetensors"]);
    await write({});
    assert.match(await refused(), /index\.json has no weight_map; expected tensor names/);
    await write({ a: "../up.safetensors" });
    assert.match(
      await refused(),
      /the file of tensor a is \.\.\/up\.safetensors; expected the name/,
    );
    await write({ a: 7 });
    assert.match(await refused(), /the file of tensor a is 7; expected/);
    await write({ "lm_head.weight": "model.safetensors", ghost: "model.safetensors" });
    assert.match(
      await refused(),
      /names 1 tensor that its file does not hold: ghost is not in model\.safetensors; expected/,
    );
  });
});

Deno.test("folder: one file with its config.json beside it", async () => {
  await inFolder({ "config.json": CONFIG }, async (folder) => {
    await writeShards(folder, publishedTensors(false), ["model.safetensors"]);
    const { path, files } = await openCheckpoint(join(folder, "model.safetensors"));
    assert.equal(path, join(folder, "model.safetensors"));
    assert.equal(files.length, 1);
  });
});
