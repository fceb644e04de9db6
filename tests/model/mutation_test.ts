/** Every classic mistake, planted in the references, moves the fixtures' logits far beyond their bound. */
import assert from "node:assert/strict";
import { openDevice, openModel } from "../../engine/model.ts";
import { distance, floats, ids, readGolden } from "./golden.ts";
import { chunkedForm, type Mutation, MUTATIONS, qkNormRope } from "./mutations.ts";
import { planLogits, readWeights, referenceLogits } from "./reference_model.ts";

const ROOT = new URL("../fixtures/", import.meta.url).pathname;
/** What the fixture tests allow, and what the weakest mistake must exceed (spec section 13). */
const ALLOWED = 1e-3, CAUGHT = 0.1;

for (const [name, kind] of [["qwen35-dense-tiny", "dense"], ["qwen35-moe-tiny", "moe"]] as const) {
  Deno.test(`${name}: each planted mistake is caught`, async (t) => {
    const golden = await readGolden(`${ROOT}${name}/golden.safetensors`);
    using device = openDevice({ kind: "cpu" });
    using model = await openModel(`${ROOT}${name}/model.safetensors`, { device, env: {} });
    const prompt = ids(golden, "xlong.input_ids"), want = floats(golden, "xlong.logits");
    const planned = planLogits(model, prompt.length);
    const weights = readWeights(model, planned);
    const error = ({ weights: change, record }: Omit<Mutation, "name">) => {
      const own = new Map(weights);
      change?.(own, model.config);
      const logits = referenceLogits(planned, own, prompt, (r) => record?.(r, model.config) ?? r);
      return distance(logits, want).max;
    };
    assert(error({}) < ALLOWED, "unchanged references agree with the golden values");
    // The rewritten references that mutations build on are right themselves.
    const rewritten: Mutation["record"] = (r) =>
      r.op.name === "qk_norm_rope_append"
        ? { ...r, op: { ...r.op, reference: qkNormRope() as never } }
        : chunkedForm(true)!(r, model.config);
    assert(error({ record: rewritten }) < ALLOWED, "rewritten references agree too");
    for (const m of MUTATIONS) {
      if (m.only && m.only !== kind) continue;
      await t.step(m.name, () => {
        const moved = error(m);
        assert(moved > CAUGHT, `moves the logits by ${moved.toExponential(2)} only`);
      });
    }
  });
}
