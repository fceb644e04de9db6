/** From tensors to planned weights: layouts, formats, transforms, and the data that comes out. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { checkValues } from "../../engine/checkpoint/sanity.ts";
import { copyRanges, type Range, readRange, widen } from "../../engine/checkpoint/tensor_data.ts";
import {
  type PlannedWeight,
  planWeights,
  playedFormat,
  type WeightPlan,
} from "../../engine/checkpoint/weights.ts";
import { type DenseFormat, isAffine, packWeight } from "../../kernels/formats/affine.ts";
import {
  fakeCheckpoint,
  publishedTensors,
  quantiseHead,
  refusal,
  replace,
  smallDense,
  smallMoe,
} from "./fake_checkpoint.ts";

const ROOT = fileURLToPath(import.meta.resolve("../fixtures"));
const FIXTURES = ["qwen35-dense-tiny", "qwen35-moe-tiny"];

const open = async (path: string, options = {}) =>
  planWeights(await openCheckpoint(`${ROOT}/${path}`), options);

function weight(plan: WeightPlan, name: string): PlannedWeight {
  const found = plan.weights.find((w) => w.name === name);
  assert(found, name);
  return found;
}

function ranges(w: PlannedWeight): readonly (readonly Range[])[] {
  assert(w.source.kind !== "computed", w.name);
  return w.source.kind === "mapped" ? w.source.parts.map((r) => [r]) : w.source.parts;
}

async function bytesOf(list: readonly Range[]): Promise<Uint8Array<ArrayBuffer>> {
  const out = new Uint8Array(list.reduce((n, r) => n + r.bytes, 0));
  await copyRanges(list, 0, (_, offset, piece) => out.set(piece, offset));
  return out;
}

/** Rows of one weight out of the tensor that it lies in, as f32. */
async function denseValues(w: PlannedWeight): Promise<Float32Array> {
  const all = widen(w.format as DenseFormat, await bytesOf(ranges(w)[0]));
  const [rows, width] = w.shape.slice(-2), block = w.rowsPerExpert * width;
  const out: number[] = [];
  for (let at = w.firstRow * width; at < all.length; at += block) {
    out.push(...all.subarray(at, at + rows * width));
  }
  return Float32Array.from(out);
}

for (const name of FIXTURES) {
  Deno.test(`plan: ${name}: published and MLX files give the same small weights`, async () => {
    const raw = await open(name), mlx = await open(`${name}/mlx4`);
    assert.deepEqual([raw.norms.centred, mlx.norms.centred], [true, false]);
    for (const w of raw.weights.filter((w) => w.source.kind === "computed")) {
      const other = weight(mlx, w.name);
      assert(w.source.kind === "computed" && other.source.kind === "computed");
      assert.equal(w.format, "f32");
      const a = await w.source.make(), b = await other.source.make();
      assert.equal(a.length, w.shape.reduce((x, y) => x * y, 1), w.name);
      // MLX rounds 1 + w to bf16, and these fixtures the gated norm.
      for (let i = 0; i < a.length; i++) {
        assert(Math.abs(a[i] - b[i]) <= Math.abs(a[i]) / 256, `${w.name}[${i}] ${a[i]} ${b[i]}`);
      }
    }
    assert.deepEqual((await checkValues(raw)).warnings, []);
    assert.deepEqual((await checkValues(mlx)).warnings, []);
  });

  Deno.test(`plan: ${name}: quantising on load is MLX's own recipe`, async () => {
    const raw = await open(name, { quantize: 4 }), mlx = await open(`${name}/mlx4`);
    for (const w of raw.weights.filter((w) => w.source.kind !== "computed")) {
      const other = weight(mlx, w.name);
      assert.equal(playedFormat(w), other.format, w.name);
      assert(isAffine(other.format) && w.quantizeTo === other.format);
      const made = packWeight(w.quantizeTo, await denseValues(w));
      const [codes, scales, biases] = await Promise.all(ranges(other).map(bytesOf));
      assert.deepEqual(made, { values: codes, scales, biases }, w.name);
    }
  });
}

Deno.test("plan: gate and up of fused experts share one tensor", async () => {
  const plan = await open("qwen35-moe-tiny");
  const gate = weight(plan, "layers.1.moe.expertsGate"),
    up = weight(plan, "layers.1.moe.expertsUp");
  assert.equal(gate.source, up.source);
  assert.deepEqual([gate.stored, up.stored], Array(2).fill("layers.1.moe.expertsGateUp"));
  assert.deepEqual([gate.firstRow, up.firstRow, gate.rowsPerExpert], [0, 64, 128]);
  const down = weight(plan, "layers.1.moe.expertsDown");
  assert.deepEqual([down.stored, down.firstRow, down.rowsPerExpert], [down.name, 0, 128]);
  const apart = await open("qwen35-moe-tiny/mlx4");
  assert.equal(weight(apart, "layers.1.moe.expertsUp").rowsPerExpert, 64);
});

Deno.test("plan: a tensor for each expert is gathered in expert order", () => {
  const heads = publishedTensors(true), p = "model.language_model.layers.2.mlp.experts.";
  const down = [7, 3, 0, 1, 2, 4, 5, 6].map((e) => ({
    name: `${p}${e}.down_proj.weight`,
    dtype: "BF16",
    shape: [128, 64],
  }));
  replace(heads, `${p}down_proj`, ...down);
  const checkpoint = fakeCheckpoint(smallMoe(), heads);
  const w = weight(planWeights(checkpoint), "layers.2.moe.expertsDown");
  assert(w.source.kind === "gathered");
  const { tensors } = checkpoint.files[0];
  assert.deepEqual(
    w.source.parts[0].map((r) => r.offset),
    [0, 1, 2, 3, 4, 5, 6, 7].map((e) => tensors.get(`${p}${e}.down_proj.weight`)!.offset),
  );
  for (let e = 0; e < 8; e++) quantiseHead(heads, `${p}${e}.down_proj`, 4, 64);
  const affine = weight(planWeights(fakeCheckpoint(smallMoe(), heads)), "layers.2.moe.expertsDown");
  assert(affine.source.kind === "gathered");
  assert.equal(affine.format, "q4g64_bf16");
  assert.deepEqual(affine.source.parts.map((part) => part.length), [8, 8, 8]);
});

Deno.test("plan: a tied model ignores a stale head and says so", () => {
  const tied = smallDense({ tie_word_embeddings: true });
  const plan = planWeights(fakeCheckpoint(tied, publishedTensors(false)));
  assert(!plan.weights.some((w) => w.name === "lmHead"));
  assert(plan.notes.includes("ignored lm_head: config.json ties the output head to the embedding"));
});

Deno.test("plan: vision and draft head are left out and said", () => {
  const heads = publishedTensors(false);
  const names = ["mtp.fc.weight", "mtp.norm.weight", "model.visual.merger.norm.weight"];
  for (const name of names) heads.set(name, { name, dtype: "BF16", shape: [2] });
  const plan = planWeights(fakeCheckpoint(smallDense(), heads));
  assert.deepEqual(plan.notes.slice(1), [
    "ignored 1 tensor of the vision tower",
    "ignored 2 tensors of the MTP draft head",
  ]);
  assert.equal(plan.draftTensors, 2);
});

Deno.test("plan: bits come from the shapes, groups from the module's own rule", () => {
  const heads = publishedTensors(false), p = "model.language_model.layers.0.mlp.";
  quantiseHead(heads, `${p}gate_proj`, 4, 64);
  quantiseHead(heads, `${p}up_proj`, 8, 64);
  quantiseHead(heads, `${p}down_proj`, 4, 32);
  const quantization = {
    group_size: 64,
    bits: 4,
    [`language_model.model.layers.0.mlp.down_proj`]: { group_size: 32, bits: 4 },
    [`language_model.model.layers.0.self_attn.q_proj`]: false,
  };
  const plan = planWeights(fakeCheckpoint({ ...smallDense(), quantization }, heads));
  const format = (name: string) => weight(plan, name).format;
  assert.equal(format("layers.0.mlp.gate"), "q4g64_bf16");
  assert.equal(format("layers.0.mlp.up"), "q8g64_bf16");
  assert.equal(format("layers.0.mlp.down"), "q4g32_bf16");
  assert.equal(format("layers.1.mlp.down"), "bf16");
  assert.deepEqual(plan.warnings, [
    "1 matrix holds codes of other bits than config.json says (layers.0.mlp.up 8, not 4): " +
    "the tensors are believed, as their shapes fit nothing else",
  ]);
  const untold = weight(planWeights(fakeCheckpoint(smallDense(), heads)), "layers.0.mlp.down");
  assert.equal(untold.format, "q4g32_bf16");
});

Deno.test("plan: quantising leaves odd widths dense and small gates at 8 bits", () => {
  const odd = smallDense({ intermediate_size: 96 });
  const heads = publishedTensors(false);
  for (let l = 0; l < 4; l++) {
    const p = `model.language_model.layers.${l}.mlp.`;
    for (
      const [name, shape] of [["gate_proj", [96, 128]], ["up_proj", [96, 128]], ["down_proj", [
        128,
        96,
      ]]] as const
    ) {
      replace(heads, `${p}${name}.weight`, { name: `${p}${name}.weight`, dtype: "BF16", shape });
    }
  }
  const plan = planWeights(fakeCheckpoint(odd, heads), { quantize: 4 });
  assert.equal(playedFormat(weight(plan, "layers.0.mlp.down")), "bf16");
  assert.equal(playedFormat(weight(plan, "layers.0.mlp.up")), "q4g64_bf16");
  assert.equal(playedFormat(weight(plan, "embed")), "q4g64_bf16");
  assert.equal(playedFormat(weight(plan, "layers.0.gdn.conv")), "f32");
  const moe = planWeights(fakeCheckpoint(smallMoe(), publishedTensors(true)), { quantize: 4 });
  assert.equal(playedFormat(weight(moe, "layers.0.moe.router")), "q8g64_bf16");
  assert.equal(playedFormat(weight(moe, "layers.0.moe.sharedGate")), "q8g64_bf16");
  assert.equal(playedFormat(weight(moe, "layers.0.moe.expertsUp")), "q4g64_bf16");
});

Deno.test("plan: bits of config.json that are not those of the tensors are told, for experts too", () => {
  const heads = publishedTensors(true), p = "model.language_model.layers.";
  for (let l = 0; l < 4; l++) quantiseHead(heads, `${p}${l}.mlp.experts.gate_up_proj`, 4, 32);
  quantiseHead(heads, "lm_head", 4, 32);
  quantiseHead(heads, `${p}3.self_attn.o_proj`, 4, 32);
  const warnings = (quantization: object) =>
    planWeights(fakeCheckpoint({ ...smallMoe(), quantization }, heads)).warnings;
  const [line, ...others] = warnings({ group_size: 32, bits: 8 });
  assert.deepEqual(others, []);
  assert.match(
    line,
    /^6 matrices hold .*\(layers\.0\.moe\.expertsGateUp 4, not 8; .*; .* and 1 more\)/,
  );
  assert.deepEqual(warnings({ group_size: 32, bits: 4 }), []);
  assert.deepEqual(warnings({ group_size: 32 }), []);
});

Deno.test("plan: --quantize says what stays as it is, and is refused where that is everything", async () => {
  const p = "model.language_model.layers.3.self_attn.", heads = publishedTensors(false);
  const plan = () => planWeights(fakeCheckpoint(smallDense(), heads), { quantize: 4 });
  assert.deepEqual(plan().warnings, []);
  quantiseHead(heads, `${p}q_proj`, 8, 64);
  assert.deepEqual(plan().warnings, [
    "--quantize 4 is for dense matrices: 1 matrix stays q8g64_bf16 as in the checkpoint",
  ]);
  quantiseHead(heads, `${p}k_proj`, 4, 64);
  assert.match(plan().warnings[0], /: 2 matrices stay q8g64_bf16, q4g64_bf16 as in/);
  for (const { name, shape } of [...heads.values()]) {
    if (shape.length === 2 && shape[1] % 64 === 0) {
      quantiseHead(heads, name.replace(/\.weight$/, ""), 4, 64);
    }
  }
  assert.equal(
    (await refusal(plan)).message,
    "Checkpoint /m holds nothing that --quantize 4 could quantise: 33 matrices are q4g64_bf16, " +
      "q8g64_bf16 already; expected a bf16, f16 or f32 checkpoint. Leave --quantize out.",
  );
});

Deno.test("plan: tensors at odd places are copied instead of mapped", () => {
  const heads = publishedTensors(false), q = "model.language_model.layers.3.self_attn.q_proj";
  quantiseHead(heads, q, 4, 64);
  const shifted = new Map([["x", { name: "model.visual.x", dtype: "BF16", shape: [1] }], ...heads]);
  const kindOf = (h: typeof heads) =>
    weight(planWeights(fakeCheckpoint(smallDense(), h)), "layers.3.attn.q").source.kind;
  assert.deepEqual([kindOf(heads), kindOf(shifted)], ["mapped", "gathered"]);
});

Deno.test("plan: values are read at their place and widened exactly", async () => {
  const path = await Deno.makeTempFile();
  await Deno.writeFile(path, new Uint8Array([9, 0x80, 0x3f, 0, 0xc0, 9]));
  const range = { file: 0, path, offset: 1, bytes: 4 };
  assert.deepEqual([...widen("bf16", await readRange(range))], [1, -2]);
  assert.deepEqual([...widen("f16", new Uint8Array([0, 0x3c, 1, 0]))], [1, 2 ** -24]);
  assert.deepEqual([...widen("f32", new Uint8Array(Float32Array.of(3).buffer))], [3]);
  await Deno.remove(path);
});
