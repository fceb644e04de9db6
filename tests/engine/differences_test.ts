/** Checkpoints that do not fit their config.json: every difference, told at once, with its reason. */
import assert from "node:assert/strict";
import { planWeights } from "../../engine/checkpoint/weights.ts";
import { counted, withArticle } from "../../engine/wording.ts";
import {
  fakeCheckpoint,
  type Heads,
  publishedTensors,
  quantiseHead,
  refusal,
  replace,
  smallDense,
  smallMoe,
} from "./fake_checkpoint.ts";

const P = "model.language_model.layers.";

/** The error for the small dense model after a change to its tensors. */
function refused(change: (heads: Heads) => void, json: object = smallDense(), moe = false) {
  const heads = publishedTensors(moe);
  change(heads);
  return refusal(() => planWeights(fakeCheckpoint({ ...json }, heads)));
}

const bf16 = (name: string, ...shape: number[]) => ({ name, dtype: "BF16", shape });

Deno.test("differences: missing, extra, wrong shape and wrong dtype in one message", async () => {
  const e = await refused((heads) => {
    replace(heads, `${P}0.mlp.up_proj.weight`);
    heads.set("extra", bf16("model.extra", 3));
    replace(heads, `${P}1.mlp.up_proj.weight`, bf16(`${P}1.mlp.up_proj.weight`, 255, 128));
    const q = `${P}3.self_attn.q_proj.weight`;
    replace(heads, q, { name: q, dtype: "I32", shape: [512, 128] });
  });
  assert.equal(
    e.message,
    "Checkpoint /m does not fit its config.json: 1 wrong dtype, 1 wrong shape, 1 missing, " +
      `1 unexpected (wrong dtype: ${P}3.self_attn.q_proj.weight is I32, not F32, F16 or BF16; ` +
      `wrong shape: ${P}1.mlp.up_proj.weight is [255, 128], not [256, 128]; ` +
      `missing: ${P}0.mlp.up_proj.weight; unexpected: model.extra BF16 [3]); ` +
      "expected the tensors of a 4-layer dense Qwen3.5 decoder. " +
      "Use the config.json and the tensor files that were published together.",
  );
  assert.equal(e.details.length, 4);
});

Deno.test("differences: five are shown, all are counted and kept", async () => {
  const e = await refused((heads) => {
    for (const name of [...heads.keys()]) if (name.startsWith(`${P}3.`)) heads.delete(name);
  });
  assert.match(
    e.message,
    /: 11 missing \(\S+layers\.3\.input_layernorm\.weight; .* and 6 more\)/,
  );
  assert.match(
    e.message,
    /Probably a part was not downloaded, from layer 3 on: finish the download\.$/,
  );
  assert.equal(e.details.length, 11);
});

const REASONS: readonly (readonly [string, (heads: Heads) => void, RegExp])[] = [
  [
    "head",
    (h) => replace(h, "lm_head.weight"),
    /1 missing \(lm_head\.weight\).* set tie_word_embeddings to true/,
  ],
  [
    "biases",
    (h) => h.set("b", bf16(`${P}3.self_attn.q_proj.bias`, 512)),
    /1 unexpected \(.*q_proj\.bias BF16 \[512\].* It adds biases/,
  ],
  [
    "Qwen3-Next",
    (h) => h.set("n", bf16(`${P}0.linear_attn.in_proj_qkvz.weight`, 384, 128)),
    /It is a Qwen3-Next checkpoint, which is not supported/,
  ],
  [
    "adapter",
    (h) => h.set("l", bf16("base_model.x.lora_A.weight", 1)),
    /It holds an adapter: merge/,
  ],
  [
    "more layers",
    (h) => h.set("m", bf16(`${P}4.input_layernorm.weight`, 128)),
    /It has more layers than num_hidden_layers \(4\)/,
  ],
  [
    "codes without scales",
    (h) => {
      quantiseHead(h, `${P}0.mlp.up_proj`, 4, 64);
      replace(h, `${P}0.mlp.up_proj.scales`);
      replace(h, `${P}0.mlp.up_proj.biases`);
    },
    /up_proj\.weight is U32, without .*up_proj\.scales, not F32, F16 or BF16/,
  ],
  [
    "one place twice",
    (h) => h.set("t", bf16("language_model.model.norm.weight", 128)),
    /1 unexpected \(.*norm\.weight BF16 \[128\], a second one for its place/,
  ],
];

Deno.test("differences: the likeliest reason comes with what to do", async () => {
  for (const [what, change, expected] of REASONS) {
    const { message } = await refused(change);
    assert.match(message, expected, what);
    assert.match(message, /; expected the tensors of a 4-layer dense Qwen3\.5 decoder\. .*\.$/);
  }
});

Deno.test("differences: config.json of another model", async () => {
  const size = await refused(() => {}, smallDense({ hidden_size: 192 }));
  assert.match(size.message, /Probably config\.json belongs to another size of the model/);
  const types = Array(4).fill("linear_attention");
  const kinds = await refused(() => {}, smallDense({ layer_types: types }));
  assert.match(kinds.message, /Probably layer_types of config\.json does not fit the tensors/);
  const moe = await refused(() => {}, smallMoe());
  assert.match(moe.message, /Probably model_type of config\.json mistakes dense for MoE layers/);
});

Deno.test("differences: numbers are said as people say them", async () => {
  const layers = 8, json = smallDense({ num_hidden_layers: layers, layer_types: null });
  const { message } = await refused(() => {}, json);
  assert.match(message, /; expected the tensors of an 8-layer dense Qwen3\.5 decoder\. /);
  assert.equal(counted(1, "tensor"), "1 tensor");
  assert.equal(counted(0, "tensor"), "0 tensors");
  assert.equal(counted(2, "matrix", "matrices"), "2 matrices");
  const an = [8, 11, 18, 80, 88, 800, 8000, 11000, 18500];
  const a = [1, 4, 10, 12, 28, 48, 64, 100, 110, 118, 180, 1800, 1100];
  assert.deepEqual(an.map(withArticle), an.map((n) => `an ${n}`));
  assert.deepEqual(a.map(withArticle), a.map((n) => `a ${n}`));
});

Deno.test("differences: a missing expert is named", async () => {
  const e = await refused(
    (heads) => {
      const each = [0, 1, 2, 4, 5, 6, 7, 8].map((i) =>
        bf16(`${P}0.mlp.experts.${i}.down_proj.weight`, 128, 64)
      );
      replace(heads, `${P}0.mlp.experts.down_proj`, ...each);
    },
    smallMoe(),
    true,
  );
  assert.match(e.message, /missing: \S+experts\.3\.down_proj\.weight/);
  assert.match(e.message, /unexpected: \S+experts\.8\.down_proj\.weight/);
});

const CODES: readonly (readonly [string, (heads: Heads, path: string) => void, RegExp])[] = [
  ["6 bits", (h, p) => quantiseHead(h, p, 6, 64), /up_proj has 6-bit codes, not 4 or 8/],
  ["2 bits", (h, p) => quantiseHead(h, p, 2, 64), /up_proj has 2-bit codes, not 4 or 8/],
  [
    "no biases",
    (h, p) => {
      quantiseHead(h, p, 4, 64);
      replace(h, `${p}.biases`);
    },
    /up_proj has scales but no biases, so it is not affine/,
  ],
  [
    "f32 scales",
    (h, p) => {
      quantiseHead(h, p, 4, 64);
      for (const part of ["scales", "biases"]) {
        replace(h, `${p}.${part}`, { name: `${p}.${part}`, dtype: "F32", shape: [256, 2] });
      }
    },
    /up_proj has F32 scales and F32 biases, not BF16 or F16 ones/,
  ],
  [
    "FP8",
    (h, p) => {
      replace(h, `${p}.weight`, { name: `${p}.weight`, dtype: "F8_E4M3", shape: [256, 128] });
      h.set("s", bf16(`${p}.weight_scale_inv`, 2, 1));
    },
    /It is quantised by FP8, which is not supported: choose an MLX affine/,
  ],
  [
    "GPTQ",
    (h, p) => replace(h, `${p}.weight`, { name: `${p}.qweight`, dtype: "I32", shape: [16, 256] }),
    /It is quantised by AWQ or GPTQ, which is not supported/,
  ],
];

Deno.test("differences: quantisations that no kernel reads are refused by module", async () => {
  for (const [what, change, expected] of CODES) {
    const { message } = await refused((heads) => change(heads, `${P}0.mlp.up_proj`));
    assert.match(message, expected, what);
    assert.match(message, /not supported: choose an MLX affine 4-bit or 8-bit checkpoint/, what);
  }
});

Deno.test("differences: groups must agree with the shapes", async () => {
  const quantization = { group_size: 32, bits: 4 };
  const e = await refused(
    (heads) => quantiseHead(heads, `${P}0.mlp.up_proj`, 4, 64),
    { ...smallDense(), quantization },
  );
  assert.match(
    e.message,
    /up_proj\.scales has groups of 64, config\.json says groups of 32\); expected .* Probably group_size/,
  );
});

Deno.test("differences: schemes of other tools are refused by the name in config.json", async () => {
  const message = async (more: Record<string, unknown>) =>
    (await refused(() => {}, { ...smallDense(), ...more })).message;
  for (const method of ["fp8", "awq", "gptq", "compressed-tensors", "bitsandbytes", "modelopt"]) {
    assert.equal(
      await message({ quantization_config: { quant_method: method, bits: 4 } }),
      `/m/config.json: quantization_config names ${method}, a quantisation that is not supported; ` +
        "expected MLX affine codes or dense weights. " +
        "Choose an MLX affine 4-bit or 8-bit checkpoint, or the bf16 original.",
    );
  }
  assert.match(
    await message({ quantization: { mode: "mxfp4", group_size: 32 } }),
    /has mode mxfp4; expected affine/,
  );
  assert.match(
    await message({ quantization: { group_size: 48 } }),
    /group_size 48; expected 16, 32/,
  );
  assert.match(await message({ quantization: 4 }), /quantization is not an object/);
  const own = { group_size: 64, "model.layers.0.mlp.gate": { mode: "nvfp4" } };
  assert.match(
    await message({ quantization: own }),
    /quantization of model\.layers\.0\.mlp\.gate has mode nvfp4; expected affine/,
  );
});

Deno.test("differences: a file that does not tell how its norms are stored is refused", async () => {
  const flat = (heads: Heads, shape: number[]) => {
    for (let l = 0; l < 3; l++) {
      const name = `${P}${l}.linear_attn.conv1d.weight`;
      replace(heads, name, { name, dtype: "BF16", shape });
    }
  };
  const heads = publishedTensors(false);
  flat(heads, [256, 4]);
  const plan = (metadata: Record<string, string>) =>
    planWeights(fakeCheckpoint(smallDense(), heads, metadata)).norms;
  assert.deepEqual(plan({ format: "pt" }), { centred: true, evidence: "metadata format pt" });
  assert.deepEqual(plan({ format: "mlx" }), { centred: false, evidence: "metadata format mlx" });
  assert.match(
    (await refusal(() => plan({}))).message,
    /does not tell whether its norms are stored/,
  );
  const { message } = await refused((h) => {
    const name = `${P}1.linear_attn.conv1d.weight`;
    replace(h, name, { name, dtype: "BF16", shape: [256, 4, 1] });
  });
  assert.match(
    message,
    /mixes 2 convolutions of \[C, 1, 4\] with 1 of \[C, 4, 1\]; expected one layout/,
  );
});
