/** Tensor names: every prefix, every layout, and what is left out on purpose. */
import assert from "node:assert/strict";
import { canonicalModule, recognise, storedName } from "../../engine/checkpoint/names.ts";

const PREFIXES = ["model.language_model.", "language_model.model.", "model."];

Deno.test("names: the same weight under every prefix", () => {
  for (const p of PREFIXES) {
    const name = (stored: string) => recognise(p + stored);
    assert.deepEqual(name("embed_tokens.weight"), {
      kind: "weight",
      name: "embed",
      part: "weight",
    });
    assert.deepEqual(name("norm.weight"), { kind: "weight", name: "finalNorm", part: "weight" });
    assert.deepEqual(name("layers.10.linear_attn.A_log"), {
      kind: "weight",
      name: "layers.10.gdn.negA",
      part: "weight",
    });
    assert.deepEqual(name("layers.3.self_attn.q_proj.scales"), {
      kind: "weight",
      name: "layers.3.attn.q",
      part: "scales",
    });
    assert.deepEqual(name("layers.0.mlp.experts.17.up_proj.weight"), {
      kind: "weight",
      name: "layers.0.moe.expertsUp",
      expert: 17,
      part: "weight",
    });
  }
  for (const head of ["lm_head.weight", "language_model.lm_head.weight"]) {
    assert.deepEqual(recognise(head), { kind: "weight", name: "lmHead", part: "weight" });
  }
});

Deno.test("names: experts in all three layouts", () => {
  const p = "model.layers.1.mlp.";
  const canonical = (stored: string) => {
    const known = recognise(p + stored);
    return known.kind === "weight" ? known.name : known.kind;
  };
  assert.equal(canonical("experts.gate_up_proj"), "layers.1.moe.expertsGateUp");
  assert.equal(canonical("experts.gate_up_proj.weight"), "layers.1.moe.expertsGateUp");
  assert.equal(canonical("experts.down_proj"), "layers.1.moe.expertsDown");
  assert.equal(canonical("switch_mlp.down_proj.biases"), "layers.1.moe.expertsDown");
  assert.equal(canonical("experts.0.down_proj.weight"), "layers.1.moe.expertsDown");
  assert.equal(canonical("gate.weight"), "layers.1.moe.router");
  assert.equal(canonical("gate_proj.weight"), "layers.1.mlp.gate");
});

Deno.test("names: vision and draft head are known, everything else is not", () => {
  for (
    const p of ["", "model.", "language_model.", "model.language_model.", "language_model.model."]
  ) {
    assert.equal(recognise(`${p}mtp.layers.0.mlp.experts.3.up_proj.weight`).kind, "draft head");
  }
  for (const p of ["model.visual.", "visual.", "vision_tower.", "model.vision_tower."]) {
    assert.equal(recognise(`${p}blocks.0.attn.qkv.weight`).kind, "vision");
  }
  assert.equal(recognise("model.layers.0.self_attn.rotary_emb.inv_freq").kind, "derived");
  const unknown = [
    "model.layers.0.linear_attn.in_proj_qkvz.weight",
    "model.layers.0.self_attn.q_proj.bias",
    "model.layers.0.self_attn.q_proj",
    "model.layers.0.linear_attn.A_log.weight",
    "model.layers.00.mlp.gate.weight",
    "model.layers.-1.mlp.gate.weight",
    "model.layers.0.mlp.experts.gate_proj.weight",
    "base_model.model.lm_head.weight",
    "constructor",
    "",
  ];
  for (const name of unknown) assert.equal(recognise(name).kind, "unknown", name);
});

Deno.test("names: module paths of quantisation rules, and back to names in a file", () => {
  assert.equal(canonicalModule("language_model.model.layers.2.mlp.gate"), "layers.2.moe.router");
  assert.equal(canonicalModule("lm_head"), "lmHead");
  assert.equal(canonicalModule("group_size"), undefined);
  const mlx = ["vision_tower.x", "language_model.model.layers.0.input_layernorm.weight"];
  assert.equal(storedName("lmHead", mlx), "language_model.lm_head.weight");
  assert.equal(
    storedName("layers.4.gdn.dtBias", mlx),
    "language_model.model.layers.4.linear_attn.dt_bias",
  );
  assert.equal(storedName("lmHead", []), "lm_head.weight");
  assert.equal(storedName("finalNorm", []), "model.language_model.norm.weight");
});
