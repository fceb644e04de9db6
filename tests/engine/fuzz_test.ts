/** Random damage to headers and configs: nothing but a UserError of one line may come out. */
import assert from "node:assert/strict";
import { modelConfig } from "../../engine/checkpoint/folder.ts";
import { headerLength, parseHeader } from "../../engine/checkpoint/safetensors.ts";
import { planWeights } from "../../engine/checkpoint/weights.ts";
import { UserError } from "../../engine/errors.ts";
import { below, pick, type Random, seeded } from "../random.ts";
import { fileHead, headerBytes, type TensorHead } from "../safetensors_writer.ts";
import {
  fakeCheckpoint,
  publishedTensors,
  quantiseHead,
  smallDense,
  smallMoe,
} from "./fake_checkpoint.ts";

const SEED = 20_240_607;

/** True when it was refused; anything but a UserError of one line fails, with the round that shows it. */
function isRefused(round: number, run: () => unknown): boolean {
  try {
    run();
    return false;
  } catch (e) {
    if (!(e instanceof UserError)) throw new Error(`seed ${SEED}, round ${round}`, { cause: e });
    assert.doesNotMatch(e.message, /[\p{Cc}]/u, `seed ${SEED}, round ${round}`);
    return true;
  }
}

const PIECES = [
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  '"',
  "-",
  "1e400",
  "null",
  "9007199254740993",
  "\\",
  "\u0000",
];

/** One to four small changes to some bytes. */
function damage(bytes: Uint8Array<ArrayBuffer>, random: Random): Uint8Array<ArrayBuffer> {
  let out = bytes.slice();
  for (let n = 1 + below(random, 4); n > 0; n--) {
    const at = below(random, out.length), length = below(random, 12);
    const put = [
      [below(random, 256)],
      [out[at] ^ (1 << below(random, 8))],
      [...new TextEncoder().encode(pick(random, PIECES))],
      [48 + below(random, 10)],
      [...out.subarray(below(random, out.length)).subarray(0, length)],
      [],
    ][below(random, 6)];
    const rest = at + (random() < 0.5 ? put.length : length);
    out = Uint8Array.from([...out.subarray(0, at), ...put, ...out.subarray(rest)]);
    if (out.length === 0) return out;
  }
  return out;
}

Deno.test("fuzz: 20,000 damaged safetensors heads", () => {
  const random = seeded(SEED);
  const tensors = [...publishedTensors(false).values()].slice(0, 6);
  const whole = fileHead(headerBytes(tensors, { format: "pt" }));
  const bytes = tensors.reduce((n, t) => n + t.shape.reduce((a, b) => a * b, 1) * 2, whole.length);
  let refused = 0;
  for (let round = 0; round < 20_000; round++) {
    const file = damage(whole, random), size = file.length - whole.length + bytes;
    if (
      isRefused(round, () => {
        const length = headerLength(file.subarray(0, 8), Math.max(size, 0), "/m/a.safetensors");
        // What a longer header would run into is tensor data: zeros here.
        const header = new Uint8Array(Math.min(length, 1 << 16));
        header.set(file.subarray(8, 8 + header.length));
        const kept = parseHeader(header, size, "/m/a.safetensors");
        for (const t of kept.tensors.values()) assert(t.offset >= 8 && t.offset + t.bytes <= size);
      })
    ) refused++;
  }
  assert(refused > 15_000 && refused < 20_000, `${refused} refused`);
});

const VALUES: readonly unknown[] = [
  null,
  true,
  false,
  "",
  "silu",
  "x\ny",
  0,
  -1,
  1,
  2,
  3,
  7,
  64,
  1e9,
  1e308,
  0.25,
  [],
  {},
  [null],
  ["full_attention"],
  { rope_theta: "1" },
  "__proto__",
];

/** Replaces, drops or moves fields at random depth. */
function damageJson(value: unknown, random: Random): unknown {
  const json = structuredClone(value) as Record<string, unknown>;
  for (let n = 1 + below(random, 3); n > 0; n--) {
    let at = json;
    while (random() < 0.7) {
      const inner = Object.values(at).filter((v) => typeof v === "object" && v !== null);
      if (inner.length === 0) break;
      at = pick(random, inner) as Record<string, unknown>;
    }
    const keys = Object.keys(at);
    if (keys.length === 0) continue;
    const key = pick(random, keys);
    const what = random();
    if (what < 0.15) delete at[key];
    else if (what < 0.3) at[key] = structuredClone(at[pick(random, keys)]);
    else at[key] = structuredClone(pick(random, VALUES));
  }
  return json;
}

Deno.test("fuzz: 20,000 damaged configs", () => {
  const random = seeded(SEED);
  const bases = [smallDense(), smallMoe(), smallDense().text_config];
  let refused = 0;
  for (let round = 0; round < 20_000; round++) {
    const json = damageJson(pick<unknown>(random, bases), random);
    if (isRefused(round, () => modelConfig(json, "/m/config.json"))) refused++;
  }
  assert(refused > 10_000 && refused < 20_000, `${refused} refused`);
});

Deno.test("fuzz: 3,000 checkpoints whose tensors and quantisation rules were changed", () => {
  const random = seeded(SEED);
  const quantization = {
    group_size: 64,
    bits: 4,
    mode: "affine",
    "lm_head": { bits: 8, group_size: 64 },
  };
  let refused = 0;
  for (let round = 0; round < 3000; round++) {
    const moe = random() < 0.5, heads = publishedTensors(moe);
    const json = { ...moe ? smallMoe() : smallDense(), quantization };
    for (const path of ["lm_head", "model.language_model.layers.1.linear_attn.in_proj_qkv"]) {
      quantiseHead(heads, path, pick(random, [4, 8]), 64);
    }
    for (let n = below(random, 3); n > 0; n--) {
      const name = pick(random, [...heads.keys()]), t = heads.get(name)!;
      heads.delete(name);
      if (random() < 0.8) heads.set(name, changed(t, random));
      if (random() < 0.2) heads.set(`${name}x`, { ...t, name: `${name}x` });
    }
    const rules = random() < 0.5
      ? { quantization }
      : damageJson({ quantization }, random) as typeof json;
    const run = () => planWeights(fakeCheckpoint({ ...json, ...rules }, heads), { quantize: 4 });
    if (isRefused(round, run)) refused++;
  }
  assert(refused > 1000 && refused < 3000, `${refused} refused`);
});

function changed(t: TensorHead, random: Random): TensorHead {
  const shape = t.shape.map((n) => random() < 0.3 ? pick(random, [0, 1, n + 1, 2 * n]) : n);
  return pick(random, [
    { ...t, shape },
    { ...t, shape: shape.slice(1) },
    { ...t, dtype: pick(random, ["F32", "F16", "U32", "I32", "U8"]) },
    { ...t, shape: [] },
  ]);
}
