/**
 * On the CPU joined records change no bit: logits and states of whole models with fused=on are those of
 * fused=off, on every instruction set. So all that is tested of the one holds for the other.
 */
import assert from "node:assert/strict";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { Device } from "../../ffi/abi/handle.ts";
import { FIXTURE_ROOT } from "./fixture.ts";

/** Past the first block of keys, so that both forms of decode attention take part. */
const BEFORE = 240, ROWS = [...Array(24).fill(1), 2, 5, 16, 3];

async function play(name: string, index: number, plan: { actInt8: boolean; fused: boolean }) {
  using device = openDevice({ kind: "cpu", index });
  using model = await openModel(name, { device, env: {}, plan });
  using session = new Session(model, { ctx: 320, kv: "f16" });
  const n = BEFORE + ROWS.reduce((a, b) => a + b);
  const most = Math.min(model.config.vocab, 500);
  const ids = Uint32Array.from({ length: n }, (_, i) => (i * 7919 + 13) % most);
  await session.forward(ids.slice(0, BEFORE), "none");
  const logits: Float32Array[] = [];
  let at = BEFORE;
  for (const rows of ROWS) {
    logits.push(await session.forward(ids.slice(at, at + rows), "logits"));
    at += rows;
  }
  return { logits, states: session.readStates() };
}

const MODELS = [
  "tiny",
  `${FIXTURE_ROOT}qwen35-dense-tiny/model.safetensors`,
  `${FIXTURE_ROOT}qwen35-moe-tiny/model.safetensors`,
  `${FIXTURE_ROOT}qwen35-moe-tiny/mlx4`,
];

for (let index = 0; index < Device.count("cpu"); index++) {
  for (const name of index === 0 ? MODELS : MODELS.slice(1)) {
    const label = `CPU ${index}, ${name.replace(FIXTURE_ROOT, "")}`;
    Deno.test(`${label}: fused=on has the bits of fused=off`, async () => {
      for (const actInt8 of [false, true]) {
        const apart = await play(name, index, { actInt8, fused: false });
        const joined = await play(name, index, { actInt8, fused: true });
        assert.deepEqual(joined, apart, `actInt8=${actInt8}`);
      }
    });
  }
}
