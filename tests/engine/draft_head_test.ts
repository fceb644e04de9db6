/** The MTP head of a checkpoint: names, differences, what is refused, and heads of synthetic models. */
import assert from "node:assert/strict";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { recognise, storedName } from "../../engine/checkpoint/names.ts";
import { planWeights } from "../../engine/checkpoint/weights.ts";
import { UserError } from "../../engine/errors.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { weightList } from "../../kernels/models/qwen35_weights.ts";

const DENSE = new URL("../fixtures/qwen35-dense-tiny", import.meta.url).pathname;
const TINY = new URL("../../models/tiny-mlx-4bit", import.meta.url).pathname;

Deno.test("names of head tensors lead to places, whatever stands before them", () => {
  const places = {
    "fc.weight": "mtp.fc",
    "norm.weight": "mtp.norm",
    "pre_fc_norm_embedding.weight": "mtp.embedNorm",
    "pre_fc_norm_hidden.weight": "mtp.hiddenNorm",
    "layers.0.input_layernorm.weight": "mtp.inputNorm",
    "layers.0.self_attn.q_proj.weight": "mtp.attn.q",
    "layers.0.mlp.gate.weight": "mtp.moe.router",
    "layers.0.mlp.experts.gate_up_proj": "mtp.moe.expertsGateUp",
    "layers.0.mlp.switch_mlp.down_proj.weight": "mtp.moe.expertsDown",
  };
  for (const prefix of ["", "model.", "language_model.", "model.language_model."]) {
    for (const [stored, name] of Object.entries(places)) {
      const place = { name, part: "weight" as const };
      assert.deepEqual(recognise(`${prefix}mtp.${stored}`), { kind: "draft head", place });
    }
  }
  const expert = recognise("mtp.layers.0.mlp.experts.3.up_proj.weight");
  const place = { name: "mtp.moe.expertsUp", part: "weight" as const, expert: 3 };
  assert.deepEqual(expert, { kind: "draft head", place });
  for (const odd of ["mtp.layers.1.mlp.gate.weight", "mtp.fc", "mtp.eh_proj.weight"]) {
    assert.deepEqual(recognise(odd), { kind: "draft head" });
  }
  const like = ["model.language_model.layers.0.mlp.gate_proj.weight"];
  assert.equal(storedName("mtp.fc", like), "mtp.fc.weight");
  const mlx = ["language_model.model.embed_tokens.weight"];
  assert.equal(
    storedName("mtp.attn.q", mlx),
    "language_model.mtp.layers.0.self_attn.q_proj.weight",
  );
});

Deno.test("the head beside the model's file is found, and planned only when asked for", async () => {
  const checkpoint = await openCheckpoint(DENSE);
  const names = (draftHead: boolean | "optional") =>
    planWeights(checkpoint, { draftHead }).weights.map((w) => w.name)
      .filter((n) => n.startsWith("mtp."));
  assert.deepEqual(names(false), []);
  const head = weightList(checkpoint.config, true).map((w) => w.name)
    .filter((n) => n.startsWith("mtp."));
  assert.equal(head.length, 15);
  assert.deepEqual(names(true), head);
  assert.deepEqual(names("optional"), head);
  const { notes } = planWeights(checkpoint);
  assert(notes.some((n) => n === "ignored 15 tensors of the MTP draft head"), notes.join("; "));
  assert(!planWeights(checkpoint, { draftHead: true }).notes.some((n) => n.includes("MTP")));
});

Deno.test("a head that lacks a tensor, or has one too many, is told apart by name", async () => {
  const checkpoint = await openCheckpoint(TINY);
  const without = (pattern: RegExp, also: string[] = []) => ({
    ...checkpoint,
    files: checkpoint.files.map((f) => {
      const kept = [...f.tensors].filter(([name]) => !pattern.test(name));
      const any = [...f.tensors.values()][0];
      const more = also.map((name) => [name, { ...any, name }] as const);
      return { ...f, tensors: new Map([...kept, ...(f.path.includes("mtp") ? more : [])]) };
    }),
  });
  assert.throws(() => planWeights(without(/mtp\.fc\./), { draftHead: true }), (e) => {
    assert(e instanceof UserError);
    assert.match(e.message, /language_model\.mtp\.fc\.weight/);
    return true;
  });
  planWeights(without(/mtp\.fc\./));
  const odd = without(/^$/, ["language_model.mtp.layers.1.mlp.gate.weight"]);
  assert.throws(() => planWeights(odd, { draftHead: true }), /mtp\.layers\.1\.mlp\.gate/);
  planWeights(odd);
  const none = without(/mtp\./);
  assert.throws(
    () => planWeights(none, { draftHead: true }),
    /has no MTP draft head, though config\.json names one; expected one of one layer/,
  );
  planWeights(none, { draftHead: "optional" });
  const two = { ...checkpoint, config: { ...checkpoint.config, mtpLayers: 2 } };
  assert.throws(() => planWeights(two, { draftHead: true }), /a head of 2 layers|head of 2 layers/);
});

Deno.test("a synthetic model can have a head", async () => {
  using device = openDevice({ kind: "cpu" });
  const synthetic = { layers: 4, vocab: 512, experts: 16 };
  using model = await openModel("qwen35-a3b", { device, env: {}, synthetic, draftHead: true });
  assert(model.hasDraftHead);
  using session = new Session(model, { ctx: 64, draftHead: true });
  session.begin({ sampling: GREEDY, stopIds: [], limit: 30 });
  await session.prefill(Uint32Array.from({ length: 20 }, (_, i) => i), undefined, 3);
  assert.equal(session.drafts().length, 3);
  await session.rounds(2, { rows: 4, drafts: 3 });
  assert.equal(session.counts().rounds, 2);
  assert.equal(session.take().length, 3 + session.counts().accepted);
});
