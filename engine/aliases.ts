/**
 * Short model names, and where their checkpoints lie: the built-in model, or a snapshot in the
 * standard Hugging Face cache. Downloads nothing and reads no environment of its own.
 */
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { shownName, UserError } from "./errors.ts";
import { SIZE_OF_ALIAS } from "./synthetic/sizes.ts";

/** Repositories in order of preference: MLX 4-bit first, the published bf16 last. */
const REPOS: Readonly<Record<string, readonly string[]>> = {
  "qwen35-0.8b": [
    "mlx-community/Qwen3.5-0.8B-MLX-4bit",
    "mlx-community/Qwen3.5-0.8B-4bit",
    "Qwen/Qwen3.5-0.8B",
  ],
  "qwen35-2b": [
    "mlx-community/Qwen3.5-2B-MLX-4bit",
    "mlx-community/Qwen3.5-2B-4bit",
    "Qwen/Qwen3.5-2B",
  ],
  "qwen35-4b": [
    "mlx-community/Qwen3.5-4B-MLX-4bit",
    "mlx-community/Qwen3.5-4B-4bit",
    "Qwen/Qwen3.5-4B",
  ],
  "qwen35-9b": [
    "mlx-community/Qwen3.5-9B-MLX-4bit",
    "mlx-community/Qwen3.5-9B-4bit",
    "Qwen/Qwen3.5-9B",
  ],
  "qwen35-27b": ["mlx-community/Qwen3.5-27B-4bit", "Qwen/Qwen3.5-27B"],
  "qwen35-a3b": ["mlx-community/Qwen3.5-35B-A3B-4bit", "Qwen/Qwen3.5-35B-A3B"],
  "qwen35-122b-a10b": ["mlx-community/Qwen3.5-122B-A10B-4bit", "Qwen/Qwen3.5-122B-A10B"],
  "qwen36-27b": ["mlx-community/Qwen3.6-27B-4bit", "Qwen/Qwen3.6-27B"],
  "qwen36-a3b": ["mlx-community/Qwen3.6-35B-A3B-4bit", "Qwen/Qwen3.6-35B-A3B"],
};
const BUILT_IN = "tiny";
export const ALIASES: readonly string[] = [BUILT_IN, ...Object.keys(REPOS)];

/** The variables that say where the Hugging Face cache is. */
export type CacheEnv = Readonly<
  Partial<Record<"HF_HUB_CACHE" | "HF_HOME" | "XDG_CACHE_HOME" | "HOME", string>>
>;

export interface ModelPlace {
  readonly path: string;
  /** Set when the name was an alias. */
  readonly alias?: string;
  /** Set when the path is a snapshot of a repository. */
  readonly repo?: string;
  /** Set when the name could have meant something else, for people. */
  readonly note?: string;
}

/** Folder of the Hugging Face cache, by that library's own rules. */
export function cacheFolder(env: CacheEnv): string {
  if (env.HF_HUB_CACHE) return resolve(env.HF_HUB_CACHE);
  if (env.HF_HOME) return resolve(env.HF_HOME, "hub");
  const cache = env.XDG_CACHE_HOME || join(env.HOME || "/", ".cache");
  return resolve(cache, "huggingface", "hub");
}

/**
 * Finds what a user calls a model: an alias, an existing path, or `owner/name` of a repository in the
 * cache, tried in this order, so that no folder takes an alias's place. Throws UserError.
 */
export async function resolveModel(name: string, env: CacheEnv): Promise<ModelPlace> {
  if (name === "") {
    throw new UserError(`The model name is empty; expected a path or an alias. ${listed()}`);
  }
  const here = await exists(name);
  if (ALIASES.includes(name)) {
    const other = here ? `the current folder's own ${name} is called ./${name}` : undefined;
    const place = name === BUILT_IN
      ? { path: builtInFolder() }
      : await findSnapshot(name, REPOS[name], env, other);
    const note = other && `${name} is the model of that name, ${place.path}; ${other}`;
    return { ...place, alias: name, ...note && { note } };
  }
  if (here) return { path: resolve(name) };
  const isRepo = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/.test(name);
  if (isRepo && !/\.(safetensors|gguf)$/.test(name)) return await findSnapshot(name, [name], env);
  const what = `Model ${shownName(name)} is neither a path that exists nor an alias`;
  const near = nearest(name);
  const todo = near.length ? `Did you mean ${near.join(" or ")}?` : listed();
  throw new UserError(`${what}; expected a checkpoint folder or an alias. ${todo}`);
}

function listed(): string {
  return `Aliases: ${ALIASES.join(", ")}.`;
}

function builtInFolder(): string {
  const url = new URL("../models/tiny-mlx-4bit", import.meta.url);
  if (url.protocol === "file:") return fileURLToPath(url);
  throw new UserError(
    `The built-in model is not on this machine: this program runs from ${url.origin}; ` +
      `expected a local copy. Clone the repository, or give a checkpoint folder.`,
  );
}

async function findSnapshot(
  name: string,
  repos: readonly string[],
  env: CacheEnv,
  other?: string,
): Promise<ModelPlace> {
  const cache = cacheFolder(env);
  for (const repo of repos) {
    const path = await snapshot(join(cache, `models--${repo.replace("/", "--")}`));
    if (path) return { path, repo };
  }
  throw new UserError(
    `Model ${name} is not on this machine: looked in ${cache} for ${repos.join(", ")}; ` +
      `expected a downloaded snapshot. Run: hf download ${repos[0]}` +
      (Object.hasOwn(SIZE_OF_ALIAS, name) ? ` (or measure its shapes: bench --synthetic)` : "") +
      (other ? `; ${other}` : ""),
  );
}

/** The snapshot that refs/main names, or the only one there is; it must at least have a config.json. */
async function snapshot(repoFolder: string): Promise<string | undefined> {
  const folder = join(repoFolder, "snapshots");
  const main = await Deno.readTextFile(join(repoFolder, "refs", "main")).catch(() => "");
  const names = /^\w[\w.-]*\n?$/.test(main) ? [main.trim()] : await namesIn(folder);
  if (names.length !== 1) return undefined;
  const path = join(folder, names[0]);
  return await exists(join(path, "config.json")) ? path : undefined;
}

async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(folder)) names.push(entry.name);
  } catch (e) {
    if (e instanceof Deno.errors.NotCapable || !(e instanceof Error)) throw e;
    if (e instanceof Deno.errors.NotFound || e instanceof Deno.errors.NotADirectory) return names;
    throw new UserError(
      `Cannot read the model cache: ${e.message}. Set HF_HUB_CACHE to a folder that can be read.`,
    );
  }
  return names;
}

function exists(path: string): Promise<boolean> {
  return Deno.stat(path).then(() => true, () => false);
}

/** The aliases of least distance, where that is small enough to be a slip. */
function nearest(name: string): string[] {
  const lower = name.toLowerCase().replaceAll("3.", "3");
  const scored = ALIASES.map((alias) => ({ alias, edits: distance(lower, alias) }));
  const least = Math.min(...scored.map((s) => s.edits));
  if (least > Math.max(2, name.length / 3)) return [];
  return scored.filter((s) => s.edits === least && least < s.alias.length).map((s) => s.alias);
}

/** Levenshtein distance, of the first 40 characters. */
function distance(a: string, b: string): number {
  const from = a.slice(0, 40);
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const swap = row[j] + (from[i] === b[j] ? 0 : 1);
      next.push(Math.min(swap, row[j + 1] + 1, next[j] + 1));
    }
    row = next;
  }
  return row[b.length];
}
