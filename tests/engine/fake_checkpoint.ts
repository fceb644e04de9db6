/** Checkpoints that exist as headers only: enough for everything that is decided before data is read. */
import assert from "node:assert/strict";
import { type Checkpoint, modelConfig } from "../../engine/checkpoint/folder.ts";
import { parseHeader } from "../../engine/checkpoint/safetensors.ts";
import { UserError } from "../../engine/errors.ts";
import { type ConfigJson, configJson } from "../synth.ts";
import { headerBytes, tensorBytes, type TensorHead } from "../safetensors_writer.ts";

export type Heads = Map<string, TensorHead>;

/** Small sizes that keep every ratio of the real ones. */
const SMALL = {
  hidden_size: 128,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  linear_num_key_heads: 2,
  linear_num_value_heads: 4,
  linear_key_head_dim: 32,
  linear_value_head_dim: 32,
  vocab_size: 512,
};

export function smallDense(text: Record<string, unknown> = {}): ConfigJson {
  return configJson("9B", { ...SMALL, intermediate_size: 256, ...text });
}

export function smallMoe(text: Record<string, unknown> = {}): ConfigJson {
  const experts = { num_experts: 8, num_experts_per_tok: 2 };
  const widths = { moe_intermediate_size: 64, shared_expert_intermediate_size: 64 };
  return configJson("35B-A3B", { ...SMALL, ...experts, ...widths, ...text });
}

/** The tensors of a published bf16 checkpoint for the small configs above, spelled out. */
export function publishedTensors(moe: boolean, prefix = "model.language_model."): Heads {
  const heads: Heads = new Map();
  const add = (name: string, ...shape: number[]) => heads.set(name, { name, dtype: "BF16", shape });
  add(`${prefix}embed_tokens.weight`, 512, 128);
  for (let l = 0; l < 4; l++) {
    const p = `${prefix}layers.${l}.`;
    add(`${p}input_layernorm.weight`, 128);
    add(`${p}post_attention_layernorm.weight`, 128);
    if (l === 3) addAttention(add, `${p}self_attn.`);
    else addGdn(add, `${p}linear_attn.`);
    if (moe) addMoe(add, `${p}mlp.`);
    else {
      add(`${p}mlp.gate_proj.weight`, 256, 128);
      add(`${p}mlp.up_proj.weight`, 256, 128);
      add(`${p}mlp.down_proj.weight`, 128, 256);
    }
  }
  add(`${prefix}norm.weight`, 128);
  add("lm_head.weight", 512, 128);
  return heads;
}

type Add = (name: string, ...shape: number[]) => void;

function addAttention(add: Add, p: string): void {
  add(`${p}q_proj.weight`, 512, 128);
  add(`${p}k_proj.weight`, 128, 128);
  add(`${p}v_proj.weight`, 128, 128);
  add(`${p}o_proj.weight`, 128, 256);
  add(`${p}q_norm.weight`, 64);
  add(`${p}k_norm.weight`, 64);
}

function addGdn(add: Add, p: string): void {
  add(`${p}in_proj_qkv.weight`, 256, 128);
  add(`${p}in_proj_z.weight`, 128, 128);
  add(`${p}in_proj_b.weight`, 4, 128);
  add(`${p}in_proj_a.weight`, 4, 128);
  add(`${p}conv1d.weight`, 256, 1, 4);
  add(`${p}A_log`, 4);
  add(`${p}dt_bias`, 4);
  add(`${p}norm.weight`, 32);
  add(`${p}out_proj.weight`, 128, 128);
}

function addMoe(add: Add, p: string): void {
  add(`${p}gate.weight`, 8, 128);
  add(`${p}shared_expert_gate.weight`, 1, 128);
  add(`${p}experts.gate_up_proj`, 8, 128, 128);
  add(`${p}experts.down_proj`, 8, 128, 64);
  add(`${p}shared_expert.gate_proj.weight`, 64, 128);
  add(`${p}shared_expert.up_proj.weight`, 64, 128);
  add(`${p}shared_expert.down_proj.weight`, 128, 64);
}

/** Replaces one tensor by another, or by none. */
export function replace(heads: Heads, name: string, ...by: TensorHead[]): void {
  assert(heads.delete(name), name);
  for (const t of by) heads.set(t.name, t);
}

/** Replaces `<path>.weight` by affine codes of it. */
export function quantiseHead(heads: Heads, path: string, bits: number, group: number): void {
  const name = heads.has(`${path}.weight`) ? `${path}.weight` : path;
  const { shape } = heads.get(name)!;
  const width = shape[shape.length - 1], lead = shape.slice(0, -1);
  const scales = [...lead, width / group];
  replace(
    heads,
    name,
    { name: `${path}.weight`, dtype: "U32", shape: [...lead, width * bits / 32] },
    { name: `${path}.scales`, dtype: "BF16", shape: scales },
    { name: `${path}.biases`, dtype: "BF16", shape: scales },
  );
}

export function fakeCheckpoint(
  json: Readonly<Record<string, unknown>>,
  heads: Heads,
  metadata: Record<string, string> = { format: "pt" },
): Checkpoint {
  const list = [...heads.values()], header = headerBytes(list, metadata);
  const bytes = 8 + header.length + list.reduce((n, t) => n + tensorBytes(t), 0);
  return {
    path: "/m",
    folder: "/m",
    config: modelConfig(json, "/m/config.json"),
    json,
    files: [parseHeader(header, bytes, "/m/model.safetensors")],
    texts: {},
  };
}

/** Runs something that must throw a UserError of one line, and returns it. */
export async function refusal(run: () => unknown): Promise<UserError> {
  try {
    await run();
  } catch (e) {
    assert(e instanceof UserError, `not a UserError: ${e instanceof Error ? e.stack : e}`);
    assert.doesNotMatch(e.message, /[\n\r]/);
    assert.equal(e.exitCode, 2);
    return e;
  }
  throw new assert.AssertionError({ message: "nothing was refused" });
}
