/** Model names: paths, aliases and repositories against a Hugging Face cache made for the test. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ALIASES, cacheFolder, resolveModel } from "../../engine/aliases.ts";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { refusal } from "./fake_checkpoint.ts";

const REPO = "mlx-community/Qwen3.5-9B-MLX-4bit";

async function withCache(run: (cache: string) => Promise<void>): Promise<void> {
  const cache = await Deno.realPath(await Deno.makeTempDir());
  try {
    await run(cache);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
}

async function addSnapshot(
  cache: string,
  repo: string,
  commit: string,
  main?: string,
): Promise<string> {
  const folder = join(cache, `models--${repo.replace("/", "--")}`);
  await Deno.mkdir(join(folder, "snapshots", commit), { recursive: true });
  await Deno.writeTextFile(join(folder, "snapshots", commit, "config.json"), "{}");
  if (main !== undefined) {
    await Deno.mkdir(join(folder, "refs"), { recursive: true });
    await Deno.writeTextFile(join(folder, "refs", "main"), main);
  }
  return join(folder, "snapshots", commit);
}

Deno.test("aliases: the cache is where Hugging Face's own tools put it", () => {
  assert.equal(cacheFolder({ HOME: "/h" }), "/h/.cache/huggingface/hub");
  assert.equal(cacheFolder({ HOME: "/h", XDG_CACHE_HOME: "/x" }), "/x/huggingface/hub");
  assert.equal(cacheFolder({ HOME: "/h", HF_HOME: "/hf" }), "/hf/hub");
  assert.equal(cacheFolder({ HOME: "/h", HF_HOME: "/hf", HF_HUB_CACHE: "/c" }), "/c");
  assert.equal(cacheFolder({ HOME: "/h", HF_HOME: "" }), "/h/.cache/huggingface/hub");
});

Deno.test("aliases: tiny opens from anywhere", async () => {
  const { path, alias } = await resolveModel("tiny", {});
  assert.equal(alias, "tiny");
  assert.equal((await openCheckpoint(path)).config.vocab, 4096);
});

Deno.test("aliases: the snapshot that main names, else the only one; the first repository wins", async () => {
  await withCache(async (cache) => {
    const env = { HF_HUB_CACHE: cache };
    const bf16 = await addSnapshot(cache, "Qwen/Qwen3.5-9B", "c0");
    assert.deepEqual(await resolveModel("qwen35-9b", env), {
      path: bf16,
      alias: "qwen35-9b",
      repo: "Qwen/Qwen3.5-9B",
    });
    await addSnapshot(cache, REPO, "old");
    const main = await addSnapshot(cache, REPO, "new", "new\n");
    assert.equal((await resolveModel("qwen35-9b", env)).path, main);
    assert.deepEqual(await resolveModel(REPO, env), { path: main, repo: REPO });
    await Deno.remove(join(main, "config.json"));
    assert.equal((await resolveModel("qwen35-9b", env)).path, bf16);
    await addSnapshot(cache, REPO, "new", "../new");
    assert.equal((await resolveModel("qwen35-9b", env)).path, bf16);
  });
});

Deno.test("aliases: a model that is not there says how to get it and where it was looked for", async () => {
  await withCache(async (cache) => {
    const e = await refusal(() => resolveModel("qwen36-a3b", { HF_HUB_CACHE: cache }));
    assert.equal(
      e.message,
      `Model qwen36-a3b is not on this machine: looked in ${cache} for ` +
        "mlx-community/Qwen3.6-35B-A3B-4bit, Qwen/Qwen3.6-35B-A3B; expected a downloaded snapshot. " +
        "Run: hf download mlx-community/Qwen3.6-35B-A3B-4bit " +
        "(or measure its shapes: bench --synthetic)",
    );
    for (const alias of ALIASES.slice(1)) {
      const { message } = await refusal(() => resolveModel(alias, { HF_HUB_CACHE: cache }));
      assert.match(
        message,
        /Run: hf download mlx-community\/Qwen3\.[56]-\S+-4bit \(or measure its shapes: bench --synthetic\)$/,
      );
    }
  });
});

Deno.test("aliases: a cache that is a file holds no model", async () => {
  await withCache(async (folder) => {
    const file = join(folder, "taken");
    await Deno.writeTextFile(file, "");
    for (const cache of [file, join(file, "hub")]) {
      const { message } = await refusal(() => resolveModel("qwen35-9b", { HF_HUB_CACHE: cache }));
      assert.ok(message.startsWith(`Model qwen35-9b is not on this machine: looked in ${cache}`));
    }
  });
});

Deno.test("aliases: no folder takes the place of a name, and a slash means the folder", async () => {
  await withCache(async (cwd) => {
    for (const name of ["tiny", "qwen35-9b", "own"]) await Deno.mkdir(join(cwd, name));
    const module = JSON.stringify(import.meta.resolve("../../engine/aliases.ts"));
    const code = `import { resolveModel } from ${module};
      const names = ["tiny", "./tiny", "own", "qwen35-9b", "qwen35-4b"];
      const places = names.map((n) => resolveModel(n, { HOME: "/no" }).catch((e) => e.message));
      console.log(JSON.stringify(await Promise.all(places)));`;
    const args = ["eval", "--config", fileURLToPath(import.meta.resolve("../../deno.json")), code];
    const { stdout } = await new Deno.Command(Deno.execPath(), { args, cwd }).output();
    const [builtIn, folder, own, both, none] = JSON.parse(new TextDecoder().decode(stdout));
    const { path } = await resolveModel("tiny", {});
    assert.deepEqual(builtIn, {
      path,
      alias: "tiny",
      note:
        `tiny is the model of that name, ${path}; the current folder's own tiny is called ./tiny`,
    });
    assert.deepEqual(folder, { path: join(cwd, "tiny") });
    assert.deepEqual(own, { path: join(cwd, "own") });
    assert.match(
      both,
      /not on this machine.*; the current folder's own .* is called \.\/qwen35-9b$/,
    );
    assert.doesNotMatch(none, /current folder/);
  });
});

Deno.test("aliases: a near miss is offered", async () => {
  const todo = async (name: string) => (await refusal(() => resolveModel(name, {}))).message;
  assert.equal(
    await todo("qwen35-8b"),
    "Model qwen35-8b is neither a path that exists nor an alias; " +
      "expected a checkpoint folder or an alias. Did you mean qwen35-2b or qwen35-4b or qwen35-9b?",
  );
  assert.match(await todo("tny"), /Did you mean tiny\?$/);
  assert.match(await todo("Qwen3.5-27B"), /Did you mean qwen35-27b\?$/);
  assert.match(await todo("/no/such/place"), /Aliases: tiny, qwen35-0\.8b, /);
  assert.match(await todo(""), /The model name is empty/);
  assert.match(await todo("toString"), /neither a path/);
});
