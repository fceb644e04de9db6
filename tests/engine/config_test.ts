/** config.json: every published size, every place a field may stand in, every refusal. */
import assert from "node:assert/strict";
import { modelConfig } from "../../engine/checkpoint/folder.ts";
import { convChannels, weightList } from "../../kernels/models/qwen35_weights.ts";
import { ALL_SIZES, configJson, type Size } from "../synth.ts";
import { refusal, smallDense, smallMoe } from "./fake_checkpoint.ts";

const parse = (json: unknown) => modelConfig(json, "/m/config.json");

/** Text parameters as spec/budget.py counts them. */
const PARAMETERS: Record<Size, number> = {
  "0.8B": 752_393_024,
  "2B": 1_881_825_088,
  "4B": 4_205_751_296,
  "9B": 8_953_803_264,
  "27B": 26_895_998_464,
  "35B-A3B": 34_660_610_688,
  "122B-A10B": 122_111_526_912,
  "397B-A17B": 396_346_350_336,
};

Deno.test("config: every published size parses, and its weights add up", () => {
  for (const size of ALL_SIZES) {
    const c = parse(configJson(size));
    const total = weightList(c).reduce((n, w) => n + w.shape.reduce((a, b) => a * b, 1), 0);
    assert.equal(total, PARAMETERS[size], size);
    assert.equal(c.layerKinds.filter((k) => k === "attention").length, c.layers / 4, size);
    assert.equal(c.rotaryDim, 64);
    assert(Object.isFrozen(c) && Object.isFrozen(c.layerKinds));
  }
});

Deno.test("config: 35B-A3B in full", () => {
  const { layerKinds, ...c } = parse(configJson("35B-A3B"));
  assert.deepEqual(layerKinds.slice(0, 4), ["gdn", "gdn", "gdn", "attention"]);
  assert.deepEqual(c, {
    family: "qwen3_5",
    moe: true,
    hidden: 2048,
    layers: 40,
    qHeads: 16,
    kvHeads: 2,
    headDim: 256,
    rotaryDim: 64,
    ropeTheta: 1e7,
    ffn: 0,
    kHeads: 16,
    vHeads: 32,
    gdnHeadDim: 128,
    convTaps: 4,
    vocab: 248320,
    experts: 256,
    topK: 8,
    expertFfn: 512,
    sharedFfn: 512,
    tied: false,
    normEps: 1e-6,
    contextMax: 262144,
    mtpLayers: 1,
    headMap: 0,
  });
  assert.equal(convChannels(parse(configJson("35B-A3B"))), 8192);
});

Deno.test("config: text-only files, missing inner types, and Qwen3.6 say the same", () => {
  const wrapper = configJson("4B"), same = parse(wrapper);
  assert.deepEqual(parse(wrapper.text_config), same);
  const { model_type: _, ...untyped } = wrapper.text_config;
  assert.deepEqual(parse({ ...wrapper, text_config: untyped }), same);
  const later = { output_gate_type: "swish", partial_rotary_factor: 0.25 };
  assert.deepEqual(parse(configJson("4B", later)), same);
});

Deno.test("config: layer_types first, the interval only without them", () => {
  const types = Array.from({ length: 24 }, (_, i) => i % 2 ? "full_attention" : "linear_attention");
  const odd = parse(configJson("0.8B", { layer_types: types, full_attention_interval: 4 }));
  assert.deepEqual(odd.layerKinds.slice(0, 4), ["gdn", "attention", "gdn", "attention"]);
  const third = parse(configJson("0.8B", { layer_types: null, full_attention_interval: 3 }));
  assert.deepEqual(third.layerKinds.slice(0, 4), ["gdn", "gdn", "attention", "gdn"]);
  const neither = { layer_types: null, full_attention_interval: null };
  assert.equal(parse(configJson("0.8B", neither)).layerKinds[3], "attention");
});

Deno.test("config: rope fields stand inside, beside, in both places or nowhere", () => {
  const rope = (rope_parameters: unknown, text = {}) =>
    parse(configJson("0.8B", { rope_parameters, ...text }));
  assert.equal(rope({ rope_theta: 5, partial_rotary_factor: 0.5 }).rotaryDim, 128);
  assert.equal(rope(null, { rope_theta: 5, partial_rotary_factor: 0.5 }).rotaryDim, 128);
  assert.equal(rope({ rope_theta: 5 }).rotaryDim, 64);
  assert.equal(rope({ rope_theta: 5 }, { rope_theta: 5 }).ropeTheta, 5);
  assert.equal(rope(null, { rope_theta: 7, rope_scaling: null }).ropeTheta, 7);
});

Deno.test("config: the head is tied where either place says so", () => {
  const json = smallDense({ tie_word_embeddings: undefined });
  assert.equal(parse({ ...json, tie_word_embeddings: true }).tied, true);
  assert.equal(parse({ ...json, tie_word_embeddings: undefined }).tied, false);
  assert.equal(parse(smallDense({ tie_word_embeddings: true })).tied, true);
});

Deno.test("config: a wrong value names file, field, value, what was expected and what to do", async () => {
  const messageOf = async (json: unknown) => (await refusal(() => parse(json))).message;
  assert.equal(
    await messageOf(smallDense({ num_hidden_layers: "4", layer_types: [] })),
    '/m/config.json: text_config.num_hidden_layers is "4"; expected an integer from 1 to 512. ' +
      "Restore the config.json that the model was published with.",
  );
  assert.equal(
    await messageOf({ model_type: "qwen3_next" }),
    '/m/config.json: model_type is "qwen3_next", an architecture that is not supported; expected ' +
      "qwen3_5, qwen3_5_moe, qwen3_5_text or qwen3_5_moe_text. Choose a Qwen3.5 or Qwen3.6 checkpoint.",
  );
  assert.equal(
    await messageOf(smallDense({ attention_bias: true })),
    "/m/config.json: text_config.attention_bias is true; expected false. " +
      "The kernels compute nothing else: choose another checkpoint.",
  );
  assert.match(await messageOf([1]), /^\/m\/config\.json: holds \[1\]; expected a JSON object\./);
  assert.match(await messageOf({}), /model_type is missing/);
});

const DENSE_REFUSALS: Record<string, unknown> = {
  model_type: "gemma4_text",
  hidden_size: 0,
  num_attention_heads: 3,
  num_key_value_heads: 3,
  head_dim: 96,
  linear_num_value_heads: 3,
  linear_key_head_dim: 24,
  linear_value_head_dim: 64,
  linear_conv_kernel_dim: 3,
  layer_types: ["linear_attention"],
  vocab_size: 1.5,
  rms_norm_eps: 0,
  max_position_embeddings: -1,
  hidden_act: "gelu",
  attn_output_gate: false,
  output_gate_type: "sigmoid",
  use_sliding_window: true,
  partial_rotary_factor: 0.3,
  rope_scaling: { type: "yarn", factor: 4 },
  rope_parameters: { rope_type: "linear", rope_theta: 1e7 },
  intermediate_size: null,
  num_experts: 4,
  mtp_use_dedicated_embeddings: true,
  tie_word_embeddings: "yes",
};
const MOE_REFUSALS: Record<string, unknown> = {
  norm_topk_prob: false,
  mlp_only_layers: [0],
  decoder_sparse_step: 2,
  num_experts_per_tok: 9,
  num_experts: 0,
  moe_intermediate_size: null,
  shared_expert_intermediate_size: 0,
};

Deno.test("config: whatever changes the maths or breaks a kernel is refused by name", async () => {
  const check = async (json: unknown, key: string) =>
    assert.match((await refusal(() => parse(json))).message, new RegExp(key), key);
  for (const [key, value] of Object.entries(DENSE_REFUSALS)) {
    const name = key.startsWith("rope_") ? "type" : key;
    await check(smallDense({ [key]: value }), name);
  }
  for (const [key, value] of Object.entries(MOE_REFUSALS)) {
    await check(smallMoe({ [key]: value }), key);
  }
  await check({ ...smallDense(), model_type: "qwen3_5_mtp" }, "qwen3_5_mtp");
  await check(smallDense({ layer_types: Array(4).fill("sliding_attention") }), "sliding_attention");
  await check(smallDense({ rope_parameters: { rope_type: "default" } }), "rope_theta");
});
