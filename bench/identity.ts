/**
 * What exactly was measured: hashes of the library that is really mapped, of weights as the device sees
 * them, of the tokenizer; version, commit and state of the source.
 */
import { NO_APPLE_FIGURES } from "../engine/caveats.ts";
import { createHash } from "node:crypto";
import { join } from "node:path";
import * as v from "valibot";
import denoJson from "../deno.json" with { type: "json" };
import { mlxFormat, modelFacts } from "../engine/checkpoint/facts.ts";
import type { LoadedModel } from "../engine/model.ts";
import { type Format, isAffine, parseAffine, weightList } from "../engine/model_terms.ts";
import { git, PROGRAM } from "./refs.ts";
import type { ModelIdentity, ReportHead } from "./report.ts";

export async function fileSha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  using file = await Deno.open(path);
  const piece = new Uint8Array(1 << 20);
  for (let n: number | null; (n = await file.read(piece)) !== null;) {
    hash.update(piece.subarray(0, n));
  }
  return hash.digest("hex");
}

/**
 * The file behind a library that this process has open: links resolved, and found among the mapped files
 * where the system lists them, since the path may hold another file by now.
 */
export async function mappedPath(path: string): Promise<string> {
  const real = await Deno.realPath(path).catch(() => path);
  const maps = await Deno.readTextFile("/proc/self/maps").catch(() => null);
  if (maps === null) return real;
  const mapped = new Set(maps.split("\n").map((line) => line.replace(/^(\S+\s+){5}/, "")));
  if (mapped.has(real)) return real;
  return mapped.has(`${real} (deleted)`) ? `${real} (deleted)` : real;
}

const SAMPLE_BYTES = 4096;
const SAMPLES = 8;

/**
 * First 16 digits of a sha256 over every weight's name, format, shape and a few blocks of its bytes as the
 * device holds them: the same for a checkpoint however its files are cut.
 */
export function weightsHash(model: LoadedModel): string {
  const hash = createHash("sha256");
  const stored = new Map([...model.forms.values()].map((f) => [f.stored, f]));
  const block = new Uint8Array(SAMPLE_BYTES);
  for (const [name, { format, shape }] of [...stored].sort(([a], [b]) => a < b ? -1 : 1)) {
    hash.update(JSON.stringify([name, format, shape]));
    for (
      const part of isAffine(format) ? ["values", "scales", "biases"] as const : ["values"] as const
    ) {
      const { memory, offset, bytes } = model.binding(name, part);
      for (let i = 0; i < SAMPLES; i++) {
        const at = Math.floor((bytes - 1) * i / SAMPLES / SAMPLE_BYTES) * SAMPLE_BYTES;
        const piece = block.subarray(0, Math.min(SAMPLE_BYTES, bytes - at));
        memory.read(offset + at, piece);
        hash.update(piece);
      }
    }
  }
  return hash.digest("hex").slice(0, 16);
}

export async function modelIdentity(model: LoadedModel): Promise<ModelIdentity> {
  const { config, origin, forms } = model;
  const planned = (name: string, otherwise: Format) => forms.get(name)?.format ?? otherwise;
  const facts = modelFacts(config, (w) => planned(w.name, mlxFormat(4)(w)));
  const text = origin.tokenizerPath;
  return {
    alias: /[/\\]/.test(model.name) ? null : model.name,
    path: origin.path || null,
    format: origin.synthetic ? "synthetic" : "safetensors",
    arch: config.moe ? "qwen3_5_moe" : "qwen3_5",
    quant: commonFormat(model),
    bytes_total: model.bytes,
    params_total: facts.parametersTotal,
    params_active: facts.parametersActive,
    weights_sha256_16: weightsHash(model),
    tokenizer_sha256: text === null ? null : await fileSha256(text),
    synthetic: origin.synthetic !== null,
  };
}

/** The format of most weights: `q4g64_bf16`. */
function commonFormat(model: LoadedModel): string {
  const sums = new Map<string, number>();
  for (const w of weightList(model.config)) {
    const { format, shape } = model.forms.get(w.name)!;
    const bits = isAffine(format) ? parseAffine(format).bits : 16;
    const size = shape.reduce((a, b) => a * b, 1) * bits;
    if (w.role !== "vector" && w.role !== "conv") sums.set(format, (sums.get(format) ?? 0) + size);
  }
  return [...sums].sort((a, b) => b[1] - a[1])[0][0];
}

/** Version of this program, and commit of its source where that is a repository or came out of one. */
export async function toolIdentity(): Promise<ReportHead["tool"]> {
  const { commit, dirty } = await bundledFrom(PROGRAM) ?? await sourceState();
  return { version: denoJson.version, commit, dirty, caveat: NO_APPLE_FIGURES };
}

async function sourceState() {
  const commit = await git(["rev-parse", "HEAD"]);
  const changes = commit === null ? null : await git(["status", "--porcelain"]);
  return { commit, dirty: changes === null ? null : changes !== "" };
}

const bundleSchema = v.object({ commit: v.string(), dirty: v.boolean() });

/** What scripts/gpu_bundle wrote of the source that it packed; null for a program that it did not. */
export async function bundledFrom(
  folder: string,
): Promise<v.InferOutput<typeof bundleSchema> | null> {
  const text = await Deno.readTextFile(join(folder, "bundle.json")).catch(() => null);
  return text === null ? null : v.parse(bundleSchema, JSON.parse(text));
}
