/**
 * A checkpoint on disk: finds config.json, the safetensors files and the texts beside them, and reads
 * their headers. Does not look at what the tensors are for and reads no tensor data.
 */
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError, type ModelConfig, parseConfig } from "../../kernels/models/qwen35_config.ts";
import { firstFive, shownName, UserError } from "../errors.ts";
import { counted } from "../wording.ts";
import { readSafetensors, type SafetensorsFile } from "./safetensors.ts";

export interface Checkpoint {
  /** As given: a folder or one .safetensors file. */
  readonly path: string;
  readonly folder: string;
  readonly config: ModelConfig;
  /** config.json as it stands. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly files: readonly SafetensorsFile[];
  /** Full paths of the texts that exist. */
  readonly texts: Readonly<Partial<Record<TextFile, string>>>;
}

const TEXT_FILES = [
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
] as const;
export type TextFile = typeof TEXT_FILES[number];

const GIVE = "Give a Hugging Face or MLX folder with config.json and safetensors files.";
const SHARD = /-(\d{5})-of-(\d{5})\.safetensors$/;

/** Opens a checkpoint folder, or one .safetensors file with a config.json beside it. */
export async function openCheckpoint(path: string): Promise<Checkpoint> {
  const given = resolve(path);
  try {
    const { isDirectory } = await Deno.stat(given);
    const folder = isDirectory ? given : dirname(given);
    const { names, index } = isDirectory ? await listFolder(folder) : singleFile(given);
    const json = await readJson(join(folder, "config.json"));
    const config = modelConfig(json, join(folder, "config.json"));
    const files = await Promise.all(names.map((name) => readSafetensors(join(folder, name))));
    if (index) checkIndex(folder, index, files);
    return { path: given, folder, config, json, files, texts: await findTexts(folder) };
  } catch (e) {
    throw asUserError(e, given);
  }
}

/** parseConfig, with its refusals as UserError. */
export function modelConfig(json: unknown, where: string): ModelConfig {
  try {
    return parseConfig(json, where);
  } catch (e) {
    throw e instanceof ConfigError ? new UserError(e.message, { cause: e }) : e;
  }
}

function asUserError(e: unknown, path: string): unknown {
  if (e instanceof UserError || !(e instanceof Error)) return e;
  if (e instanceof Deno.errors.NotFound) {
    return new UserError(
      `Cannot open checkpoint ${path}: there is no such file or folder; ` +
        `expected a folder or a .safetensors file. Check the path.`,
      { cause: e },
    );
  }
  const system = "code" in e || e instanceof Deno.errors.NotCapable;
  return !system ? e : new UserError(
    `Cannot read checkpoint ${path}: ${e.message}; expected readable files. Check the permissions.`,
    { cause: e },
  );
}

interface Listing {
  readonly names: readonly string[];
  /** Tensor name to file name, where the folder has an index. */
  readonly index?: ReadonlyMap<string, string>;
}

function singleFile(path: string): Listing {
  const name = basename(path);
  if (!name.endsWith(".safetensors")) {
    const what = name.endsWith(".gguf") ? "is a GGUF file, which is not supported" : "is a file";
    throw new UserError(`${path} ${what}; expected a folder or a .safetensors file. ${GIVE}`);
  }
  const shard = SHARD.exec(name);
  if (shard && shard[2] !== "00001") {
    throw new UserError(
      `${path} is one of ${Number(shard[2])} shards; expected a whole checkpoint. ` +
        `Give the folder ${dirname(path)}.`,
    );
  }
  return { names: [name] };
}

/** The safetensors files of a folder: those of its index, else model* and mtp*, else the only one. */
async function listFolder(folder: string): Promise<Listing> {
  const all: string[] = [];
  for await (const entry of Deno.readDir(folder)) all.push(entry.name);
  all.sort();
  if (!all.includes("config.json")) {
    const what = all.length === 0
      ? "is empty"
      : all.some((n) => n.endsWith(".gguf"))
      ? "holds a GGUF file, which is not supported, and no config.json"
      : "has no config.json";
    throw new UserError(`${folder} ${what}; expected a checkpoint folder. ${GIVE}`);
  }
  if (all.includes("model.safetensors.index.json")) {
    const index = await readIndex(folder);
    const names = [...new Set(index.values())].sort();
    refuseMissing(folder, names.filter((n) => !all.includes(n)), names.length);
    return { names, index };
  }
  return { names: unlisted(folder, all) };
}

/** The safetensors files of a folder without an index. */
function unlisted(folder: string, all: readonly string[]): string[] {
  const found = all.filter((n) => n.endsWith(".safetensors"));
  const whole = found.includes("model.safetensors");
  const model = found.filter((n) => n.startsWith("model") && !(whole && SHARD.test(n)));
  const heads = found.filter((n) => n.startsWith("mtp"));
  const names = model.length ? [...model, ...heads] : found;
  if (names.length === 0 || (names.length > 1 && model.length === 0)) {
    const other = all.find((n) => /\.(bin|pt|pth|gguf|npz)$/.test(n));
    const what = names.length
      ? `has ${names.length} safetensors files and no index`
      : other
      ? `has no safetensors file, only ${shownName(other)}`
      : "has no safetensors file";
    throw new UserError(`${folder} ${what}; expected model.safetensors or its index. ${GIVE}`);
  }
  const missing = missingShards(names);
  refuseMissing(folder, missing, names.length + missing.length);
  return names;
}

function missingShards(names: readonly string[]): string[] {
  const shard = names.map((n) => SHARD.exec(n)).find((m) => m !== null);
  if (!shard) return [];
  const stem = shard.input.slice(0, shard.index);
  const wanted = Array.from(
    { length: Number(shard[2]) },
    (_, i) => `${stem}-${String(i + 1).padStart(5, "0")}-of-${shard[2]}.safetensors`,
  );
  return wanted.filter((n) => !names.includes(n));
}

function refuseMissing(folder: string, missing: readonly string[], total: number): void {
  if (missing.length === 0) return;
  throw new UserError(
    `${folder} lacks ${missing.length} of its safetensors files: ${firstFive(missing)}; ` +
      `expected all ${Math.max(total, missing.length)} that it names. Finish the download.`,
    { details: missing },
  );
}

async function readJson(path: string): Promise<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(await Deno.readTextFile(path));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new UserError(`${path} is missing; expected it beside the tensors. ${GIVE}`, { cause });
    }
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new UserError(
      `${path} is not valid JSON (${cause.message}); expected a JSON object. Download it again.`,
      { cause },
    );
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UserError(`${path} is not a JSON object; expected one. Download it again.`);
  }
  return value as Record<string, unknown>;
}

/** Tensor name to file name, checked: a file name must stay in the folder. */
async function readIndex(folder: string): Promise<Map<string, string>> {
  const path = join(folder, "model.safetensors.index.json");
  const { weight_map: map } = await readJson(path);
  const entries = typeof map === "object" && map !== null ? Object.entries(map) : [];
  if (entries.length === 0) {
    throw new UserError(
      `${path} has no weight_map; expected tensor names with their files. Download it again.`,
    );
  }
  for (const [tensor, name] of entries) {
    if (typeof name !== "string" || !/^[^/\\]+\.safetensors$/.test(name)) {
      throw new UserError(
        `${path}: the file of tensor ${shownName(tensor)} is ${shownName(String(name))}; ` +
          `expected the name of a safetensors file in this folder. Download it again.`,
      );
    }
  }
  return new Map(entries as [string, string][]);
}

/** Every tensor that the index names must be in the file that it names. */
function checkIndex(
  folder: string,
  index: ReadonlyMap<string, string>,
  files: readonly SafetensorsFile[],
): void {
  const byName = new Map(files.map((f) => [basename(f.path), f]));
  const lost = [...index].filter(([tensor, name]) => !byName.get(name)?.tensors.has(tensor));
  if (lost.length === 0) return;
  const details = lost.map(([tensor, name]) => `${tensor} is not in ${name}`);
  const path = join(folder, "model.safetensors.index.json");
  const which = lost.length === 1 ? "that its file does" : "that their files do";
  throw new UserError(
    `${path} names ${counted(lost.length, "tensor")} ${which} not hold: ${firstFive(details)}; ` +
      `expected an index of these very files. ` +
      `Download the folder again.`,
    { details },
  );
}

async function findTexts(folder: string): Promise<Checkpoint["texts"]> {
  const found: Partial<Record<TextFile, string>> = {};
  for (const name of TEXT_FILES) {
    const path = join(folder, name);
    const exists = await Deno.stat(path).then((s) => s.isFile, () => false);
    if (exists) found[name] = path;
  }
  return found;
}
