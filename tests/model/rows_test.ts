/** Row invariance of whole models: 1 to 16 rows in one play give each row its own bits, states included. */
import assert from "node:assert/strict";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { GPU_KINDS } from "../kernel_kinds.ts";
import { ROWS_MAX } from "../../kernels/models/forward.ts";

const ROOT = new URL("../fixtures/", import.meta.url).pathname;

/** Plays `ids` from the present state, `rows` at a time: bits of all logits, and all caches and states. */
async function play(session: Session, ids: Uint32Array<ArrayBuffer>, rows: number) {
  const logits: number[] = [];
  for (let at = 0; at < ids.length; at += rows) {
    const out = await session.forward(ids.slice(at, at + rows), "logits");
    for (const bits of new Uint32Array(out.buffer)) logits.push(bits);
  }
  return { logits, states: session.readStates() };
}

const DENSE = `${ROOT}qwen35-dense-tiny/model.safetensors`, MOE = `${ROOT}qwen35-moe-tiny/mlx4`;
const ALL_ROWS = Array.from({ length: ROWS_MAX - 1 }, (_, i) => i + 2);
/** The emulator is slow: one width that no tile divides, and the widest. */
const SOME_ROWS = [3, 16];

interface Run {
  readonly kind: DeviceKind;
  readonly model: string;
  readonly tokens: number;
  readonly actInt8: boolean;
  readonly fused: boolean;
  readonly widths: readonly number[];
}

const RUNS: readonly Run[] = [
  ...[[false, false], [true, false], [false, true]].flatMap(([actInt8, fused]): Run[] => [
    { kind: "cpu", model: "tiny", tokens: 24, actInt8, fused, widths: ALL_ROWS },
    { kind: "cpu", model: DENSE, tokens: 48, actInt8, fused, widths: ALL_ROWS },
    { kind: "cpu", model: MOE, tokens: 48, actInt8, fused, widths: ALL_ROWS },
  ]),
  { kind: "emu", model: "tiny", tokens: 16, actInt8: false, fused: true, widths: SOME_ROWS },
  { kind: "emu", model: DENSE, tokens: 16, actInt8: false, fused: true, widths: ALL_ROWS },
  { kind: "emu", model: MOE, tokens: 16, actInt8: false, fused: true, widths: ALL_ROWS },
  { kind: "emu", model: MOE, tokens: 16, actInt8: false, fused: false, widths: SOME_ROWS },
  ...GPU_KINDS.flatMap((kind) =>
    ["tiny", DENSE, MOE].flatMap((model) =>
      [true, false].map((fused): Run => ({
        kind,
        model,
        tokens: 48,
        actInt8: false,
        fused,
        widths: fused ? ALL_ROWS : SOME_ROWS,
      }))
    )
  ),
];

for (const { kind, model: name, tokens, actInt8, fused, widths } of RUNS) {
  const label = `${name.replace(ROOT, "")} on ${kind}, actInt8=${actInt8}, fused=${fused}`;
  Deno.test(`${label}: up to 16 rows equal one row bit for bit`, async () => {
    using device = openDevice({ kind });
    using model = await openModel(name, { device, env: {}, plan: { actInt8, fused } });
    // Past the first block of keys, so that both forms of decode attention take part.
    using session = new Session(model, { ctx: 320, kv: "f16" });
    const ids = Uint32Array.from(
      { length: 250 + tokens },
      (_, i) => (i * 7919 + 13) % Math.min(model.config.vocab, 500),
    );
    const start = ids.slice(0, 250), rest = ids.slice(250);
    session.reset();
    await session.forward(start, "none");
    using filled = session.snapshot();
    const after = (rows: number) => {
      session.restore(filled);
      return play(session, rest, rows);
    };
    const one = await after(1);
    for (const rows of widths) {
      const many = await after(rows);
      const first = one.logits.findIndex((v, i) => v !== many.logits[i]);
      assert.equal(first, -1, `${rows} rows differ at logit ${first}`);
      for (const [state, bytes] of one.states) {
        assert.deepEqual(many.states.get(state), bytes, `${rows} rows: ${state}`);
      }
    }
  });
}

Deno.test("two runs and other thread counts give the same bits", async () => {
  const outputs: number[][] = [];
  for (const threads of [1, 2, 5]) {
    using device = openDevice({ kind: "cpu", threads });
    using model = await openModel("tiny", { device, env: {} });
    using session = new Session(model, { ctx: 128 });
    const ids = Uint32Array.from({ length: 60 }, (_, i) => (i * 31 + 7) % 4000);
    for (let again = 0; again < 4; again++) {
      session.reset();
      outputs.push((await play(session, ids, 60)).logits);
    }
  }
  for (const o of outputs) assert.deepEqual(o, outputs[0]);
});
