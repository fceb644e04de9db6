/** Checkpoints whose values are no numbers: refused before anything is computed, wherever a look can see it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { resolveModel } from "../../engine/aliases.ts";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { readSafetensors, type StoredTensor } from "../../engine/checkpoint/safetensors.ts";
import { checkValues } from "../../engine/checkpoint/sanity.ts";
import type { Range } from "../../engine/checkpoint/tensor_data.ts";
import {
  type PlannedWeight,
  planWeights,
  type Source,
  type WeightPlan,
} from "../../engine/checkpoint/weights.ts";
import { inspectCheckpoint } from "../../engine/inspect.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { refusal } from "./fake_checkpoint.ts";

const NAN = 0x7fc0, INFINITY = 0x7f80;

/** The built-in model with its bf16 values changed in place. */
async function withTiny(
  change: (t: StoredTensor, values: Uint16Array) => void,
  run: (folder: string) => Promise<void>,
): Promise<void> {
  const { path } = await resolveModel("tiny", {});
  const folder = await Deno.realPath(await Deno.makeTempDir());
  try {
    for await (const { name } of Deno.readDir(path)) {
      if (name !== "model.safetensors") await Deno.symlink(join(path, name), join(folder, name));
    }
    const file = join(path, "model.safetensors");
    const bytes = await Deno.readFile(file);
    for (const t of (await readSafetensors(file)).tensors.values()) {
      if (t.dtype !== "BF16") continue;
      const values = new Uint16Array(bytes.slice(t.offset, t.offset + t.bytes).buffer);
      change(t, values);
      bytes.set(new Uint8Array(values.buffer), t.offset);
    }
    await Deno.writeFile(join(folder, "model.safetensors"), bytes);
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function opened(folder: string): Promise<readonly string[]> {
  const notes: string[] = [];
  using device = openDevice({ kind: "cpu", threads: 1 });
  using _ = await openModel(folder, { device, env: {}, onNote: (line) => notes.push(line) });
  return notes;
}

Deno.test("damage: a checkpoint of NaN is refused when it is opened and when it is inspected", async () => {
  await withTiny((_, values) => values.fill(NAN), async (folder) => {
    const { message } = await refusal(() => opened(folder));
    assert.match(
      message,
      /^Checkpoint \/.* is damaged: \d{3} tensors hold NaN or infinite values \(scales of embed, biases of embed, layers\.0\.inputNorm, .* and \d+ more\); expected finite numbers\. Download or convert it again\.$/,
    );
    const { refusals, warnings } = await inspectCheckpoint(folder, {});
    assert.deepEqual([refusals, warnings], [[message], []]);
  });
});

Deno.test("damage: one infinite scale is seen at the beginning, middle or end of its tensor", async () => {
  const places = [() => 0, (n: number) => n >> 1, (n: number) => n - 1];
  for (const place of places) {
    const name = /layers\.2\.mlp\.switch_mlp\.down_proj\.scales$/;
    const one = (t: StoredTensor, values: Uint16Array) => {
      if (name.test(t.name)) values[place(values.length)] = INFINITY;
    };
    await withTiny(one, async (folder) => {
      const { message } = await refusal(() => opened(folder));
      assert.match(message, /: 1 tensor holds .* \(scales of layers\.2\.moe\.expertsDown\);/);
    });
  }
});

Deno.test("damage: a sound model says nothing, an odd norm is a note", async () => {
  await withTiny(() => {}, async (folder) => assert.deepEqual(await opened(folder), []));
  const small = (t: StoredTensor, values: Uint16Array) => {
    if (/layers\.0\.input_layernorm\.weight$/.test(t.name)) values.fill(0x3c00);
  };
  await withTiny(small, async (folder) => {
    const [note, ...others] = await opened(folder);
    assert.match(note, /^layers\.0\.inputNorm has mean 0\.00781, not about 1: it may lack the 1/);
    assert.deepEqual(others, []);
  });
});

Deno.test("damage: every format is looked at, through all ranges that it was gathered from", async () => {
  const path = await Deno.makeTempFile();
  try {
    const f32 = Float32Array.from([1, -3e38, 1e-45, Infinity, -NaN]);
    const f16 = Uint16Array.of(0x3c00, 0x7bff, 0xfc00);
    await Deno.writeFile(path, new Uint8Array(f32.buffer));
    await Deno.writeFile(path, new Uint8Array(f16.buffer), { append: true });
    const at = (offset: number, bytes: number): Range => ({ file: 0, path, offset, bytes });
    const of = (name: string, format: PlannedWeight["format"], source: Source) =>
      ({ name, stored: name, format, source }) as PlannedWeight;
    const make = () => Promise.resolve(Float32Array.of(1));
    const weights = [
      of("layers.0.inputNorm", "f32", { kind: "computed", from: at(0, 12), stored: "f32", make }),
      of("conv", "f32", { kind: "computed", from: at(12, 8), stored: "f32", make }),
      of("good", "f16", { kind: "mapped", parts: [at(20, 4)] }),
      of("bad", "f16", { kind: "mapped", parts: [at(22, 4)] }),
      of("codes", "q4g64_f16", { kind: "mapped", parts: [at(12, 8), at(20, 4), at(20, 2)] }),
      of("biased", "q4g64_f16", {
        kind: "gathered",
        parts: [[], [at(20, 2)], [at(20, 2), at(24, 2)]],
      }),
    ];
    const plan = { weights, norms: { centred: false, evidence: "" } } as unknown as WeightPlan;
    assert.deepEqual((await checkValues(plan)).damage, ["conv", "bad", "biases of biased"]);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("damage: looking costs little", async () => {
  const plan = planWeights(await openCheckpoint((await resolveModel("tiny", {})).path));
  const times: number[] = [];
  for (let i = 0; i < 5; i++) {
    const from = performance.now();
    await checkValues(plan);
    times.push(performance.now() - from);
  }
  assert(Math.min(...times) < 50, `${times}`);
});
