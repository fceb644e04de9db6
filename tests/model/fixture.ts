/** The random Qwen3.5 fixtures on any device, and what is held against transformers' float32 there. */
import assert from "node:assert/strict";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { defaultPlan, openDevice, openModel } from "../../engine/model.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { Session } from "../../engine/session.ts";
import { assertClose, floats, type GoldenTensor, ids, readGolden } from "./golden.ts";

export const FIXTURES = ["qwen35-dense-tiny", "qwen35-moe-tiny"];
export const FIXTURE_ROOT = new URL("../fixtures/", import.meta.url).pathname;
export const PROMPTS = ["one", "short", "chunk", "long", "xlong"];
export const BOUND = { max: 1e-3, nmse: 1e-7 };

export type Golden = Map<string, GoldenTensor>;

export async function withFixture(
  name: string,
  file: string,
  run: (session: Session, golden: Golden) => Promise<void>,
  kind: DeviceKind = "cpu",
  fused = defaultPlan(kind).fused,
): Promise<void> {
  const golden = await readGolden(`${FIXTURE_ROOT}${name}/golden.safetensors`);
  using device = openDevice({ kind });
  using model = await openModel(`${FIXTURE_ROOT}${name}${file}`, {
    device,
    env: {},
    plan: { actInt8: false, fused },
  });
  using session = new Session(model, { kv: "f32", ctx: 256 });
  await run(session, golden);
}

/** Logits of all of `prompt`, fed in pieces that end at the given positions. */
export async function logitsInPieces(
  session: Session,
  prompt: Uint32Array<ArrayBuffer>,
  ends: readonly number[],
): Promise<Float32Array> {
  session.reset();
  const vocab = session.model.config.vocab;
  const out = new Float32Array(prompt.length * vocab);
  let at = 0;
  for (const end of [...ends, prompt.length]) {
    if (end === at) continue;
    out.set(await session.forward(prompt.slice(at, end), "logits"), at * vocab);
    at = end;
  }
  return out;
}

export async function checkGreedy(session: Session, golden: Golden): Promise<void> {
  for (const p of ["short", "long"]) {
    const want = [...ids(golden, `${p}.greedy`)];
    session.reset();
    session.begin({ sampling: GREEDY, stopIds: [], limit: want.length });
    await session.prefill(ids(golden, `${p}.input_ids`));
    await session.decode(want.length - 1);
    assert.deepEqual([...session.take()], want, p);
  }
}

export async function checkLayers(session: Session, golden: Golden): Promise<void> {
  const prompt = ids(golden, "long.input_ids"), n = prompt.length;
  const c = session.model.config;
  for (let layer = 1; layer <= c.layers; layer++) {
    session.reset();
    await session.forward(prompt, "none", { tapLayers: layer });
    const got = session.readState("x", n * c.hidden);
    assertClose(got, floats(golden, `long.layers.${layer - 1}.out`), BOUND, `layer ${layer}`);
  }
  const normed = session.readState("normed", n * c.hidden);
  assertClose(normed, floats(golden, "long.final_norm"), BOUND, "final norm");
  for (let layer = 0; layer < c.layers; layer++) checkStates(session, golden, layer, n);
}

/** One layer of a state tensor of all recurrent ones. */
function stateOf(session: Session, kind: "gdn" | "conv", layer: number, elements: number) {
  const { layerKinds } = session.model.config;
  const recurrent = layerKinds.flatMap((kind, i) => kind === "gdn" ? [i] : []);
  const all = session.readState(`${kind}.states`, recurrent.length * elements);
  const at = recurrent.indexOf(layer);
  return all.subarray(at * elements, (at + 1) * elements);
}

/** Recurrent and convolution state, or keys and values, of one layer after the prompt. */
function checkStates(session: Session, golden: Golden, layer: number, n: number): void {
  const c = session.model.config, p = `long.layers.${layer}.`;
  if (c.layerKinds[layer] === "gdn") {
    const d = c.gdnHeadDim, got = stateOf(session, "gdn", layer, c.vHeads * d * d);
    const want = floats(golden, p + "state");
    // Ours lies [head][v][k], the golden one [head][k][v].
    const turned = want.map((_, i) => {
      const h = Math.floor(i / (d * d)), v = Math.floor(i / d) % d, k = i % d;
      return want[h * d * d + k * d + v];
    });
    assertClose(got, turned, BOUND, `${p}state`);
    const channels = want.length && golden.get(p + "conv_state")!.shape[0];
    const conv = stateOf(session, "conv", layer, 3 * channels);
    const wantConv = floats(golden, p + "conv_state");
    const byTap = conv.map((_, i) => wantConv[(i % channels) * 3 + Math.floor(i / channels)]);
    assertClose(conv, byTap, BOUND, `${p}conv_state`);
    return;
  }
  for (const which of ["k", "v"]) {
    const want = floats(golden, `${p}${which}_cache`);
    const cache = session.readState(`kv.${layer}.${which}`, c.kvHeads * session.ctx * c.headDim);
    const rows = new Float32Array(want.length);
    for (let h = 0; h < c.kvHeads; h++) {
      const from = h * session.ctx * c.headDim;
      rows.set(cache.subarray(from, from + n * c.headDim), h * n * c.headDim);
    }
    assertClose(rows, want, BOUND, `${p}${which}_cache`);
  }
}
