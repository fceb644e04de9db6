/** What a decode step of true sizes records with joined records: how many, which, and where they stay apart. */
import assert from "node:assert/strict";
import { type ForwardModel, planForward } from "../../engine/state.ts";
import { type ForwardShape, ROWS_MAX, type WeightForm } from "../../kernels/models/forward.ts";
import { ATTN_BLOCK } from "../../kernels/step.ts";
import { shapesOf } from "../shapes_of.ts";

const FUSED = { actInt8: false, fused: true };
const ONE = { rows: 1, ctx: 8192, keys: ATTN_BLOCK, kv: "f16", output: "sample" } as const;

function opsOf(model: ForwardModel, more: Partial<ForwardShape> = {}): string[] {
  const shape = { ...ONE, plan: model.plan, ...more };
  return planForward(model, shape).records.map((r) => r.op.name);
}

const MIXER = {
  gdn: ["norm_gemv", "gdn_decode", "gemv_add"],
  attention: ["norm_gemv", "qk_norm_rope_append", "attn_decode_gate", "gemv_add"],
  "attention over many blocks": [
    "norm_gemv",
    "qk_norm_rope_append",
    "attn_split",
    "attn_merge_gate",
    "gemv_add",
  ],
};
const FFN = {
  moe: ["norm_gemv", "moe_route_gate_up", "moe_down_add"],
  dense: ["norm_gemv", "swiglu", "gemv_add"],
};

for (const [size, ffn, most] of [["35B-A3B", "moe", 320], ["0.8B", "dense", 200]] as const) {
  Deno.test(`records: a decode step of ${size} with fused=on, layer by layer`, () => {
    const model = shapesOf(size, FUSED);
    for (const keys of [ATTN_BLOCK, 8192]) {
      const form = keys > ATTN_BLOCK ? "attention over many blocks" : "attention";
      const layers = model.config.layerKinds.flatMap((kind) => [
        ...MIXER[kind === "gdn" ? kind : form],
        ...FFN[ffn],
      ]);
      const want = ["embed", ...layers, "norm_gemv", "sample", "step_advance"];
      assert.deepEqual(opsOf(model, { keys }), want);
      assert(want.length <= most, `${want.length} records`);
    }
  });
}

Deno.test("records: fused=on changes plays of up to 16 rows alone", () => {
  const model = shapesOf("35B-A3B", FUSED), apart = shapesOf("35B-A3B", { ...FUSED, fused: false });
  assert.equal(opsOf(model, { rows: ROWS_MAX }).length, opsOf(model).length);
  const rows = ROWS_MAX + 1;
  assert.deepEqual(opsOf(model, { rows }), opsOf(apart, { rows }));
});

Deno.test("records: with 8-bit activations only exact products are joined", () => {
  const ops = opsOf(shapesOf("35B-A3B", { actInt8: true, fused: true }));
  assert(ops.includes("gdn_decode") && ops.includes("gemv_act8"));
  assert(!ops.some((op) => ["gemv_add", "moe_route_gate_up", "moe_down_add"].includes(op)));
});

Deno.test("records: a round joins what a step joins, but for the states that it must not write", () => {
  const ops = new Set(opsOf(shapesOf("35B-A3B", FUSED), { rows: 4, output: "round" }));
  for (const op of ["norm_gemv", "gemv_add", "moe_route_gate_up", "moe_down_add"]) {
    assert(ops.has(op), op);
  }
  for (const op of ["gdn_decode", "rms_norm", "add_rms_norm"]) {
    assert(!ops.has(op), op);
  }
});

/** The model with another format for the weights of this name in layer 0. */
function withFormat(model: ForwardModel, name: string, format: WeightForm["format"]): ForwardModel {
  const forms = new Map(model.forms), key = `layers.0.${name}`;
  forms.set(key, { ...forms.get(key)!, format });
  return { ...model, forms };
}

Deno.test("records: weights that are not alike stay apart, and nothing else does", () => {
  const model = shapesOf("35B-A3B", FUSED), whole = opsOf(model);
  for (const name of ["sharedGateProj", "sharedUpProj", "sharedDownProj"]) {
    const ops = opsOf(withFormat(model, `moe.${name}`, "q8g64_bf16"));
    const n = (op: string) => ops.filter((o) => o === op).length;
    assert.deepEqual(
      [n("moe_route_gate_up"), n("moe_down_add"), n("router_topk"), n("moe_shared_add")],
      [39, 39, 1, 1],
      name,
    );
    assert.deepEqual(ops.slice(-20), whole.slice(-20), name);
  }
  const mixed = opsOf(withFormat(model, "gdn.z", "q8g64_bf16"));
  assert.equal(mixed.length, whole.length + 2);
  const wide = shapesOf("35B-A3B", FUSED, { sharedFfn: 2 * model.config.expertFfn });
  assert(!opsOf(wide).includes("moe_route_gate_up"));
});

Deno.test("records: what a tap needs is there", () => {
  const model = shapesOf("35B-A3B", FUSED);
  const tapped = (more: Partial<ForwardShape>) => {
    const shape = { ...ONE, plan: model.plan, output: "logits", ...more } as const;
    return planForward(model, shape).slots.map((s) => s.name);
  };
  const routed = tapped({ tapRouting: true });
  for (let layer = 0; layer < 40; layer++) assert(routed.includes(`ids.${layer}`));
  const layers = tapped({ tapLayers: 2 });
  assert(layers.includes("x") && layers.includes("normed"));
  const given = opsOf(model, { givenRouting: true });
  assert(given.includes("expert_weights") && !given.includes("moe_route_gate_up"));
});
