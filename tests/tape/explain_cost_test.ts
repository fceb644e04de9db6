/** The text of a tape, and the bytes and operations that its limit is computed from. */
import assert from "node:assert/strict";
import { costOfRecord, costOfTape, partOf } from "../../ffi/tape/cost.ts";
import { explainTape } from "../../ffi/tape/explain.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { embed } from "../../kernels/ops/embed/op.ts";
import { STEP_WORDS } from "../../kernels/step.ts";
import { chainTape } from "./real_tapes.ts";

const CHAIN = `\
   0   rms_norm         x[3,64]f32 norm[64]f32 -> h[3,64]f32  tasks=3  eps=0.000001
   1 | gemv__q4g32_bf16 h[3,64]f32 gate_up[192,64]q4g32_bf16 -> gu[3,192]f32  tasks=6  yCol=0
   2 | swiglu           gu[3,192]f32 -> act[3,96]f32  tasks=3
   3 | gemv__bf16       act[3,96]f32 down[64,96]bf16 -> delta[3,64]f32  tasks=2  yCol=0
   4 | add_rms_norm     delta[3,64]f32 norm[64]f32 -> &x[3,64]f32 normed[3,64]f32  tasks=3  eps=0.000001
5 records, 4 waits, 11 slots, 3584 bytes of scratch`;

Deno.test("explain: one line a record, waits marked, updated tensors with &", () => {
  const text = explainTape(planTape(chainTape()));
  // How a kernel splits its work is its own affair.
  const settled = (s: string) => s.replace(/tasks=\d+/g, "tasks=N");
  assert.equal(settled(text), settled(CHAIN));
});

Deno.test("cost: bytes of each part and operations of a chain", () => {
  const cost = costOfTape(planTape(chainTape()), { pos: 0 });
  const norm = 64 * 4, gateUp = 192 * 64 / 2 + 192 * 64 / 32 * 4, down = 64 * 96 * 2;
  assert.equal(cost.bytes.weights, 2 * norm + gateUp + down);
  const rows = 3 * 64 * 4;
  // x is read, then read and written; normed is written.
  assert.equal(cost.bytes.control, rows + 2 * rows + rows);
  const scratch = { h: 2 * rows, gu: 2 * 3 * 192 * 4, act: 2 * 3 * 96 * 4, delta: 2 * rows };
  assert.equal(cost.bytes.scratch, Object.values(scratch).reduce((a, b) => a + b));
  assert.equal(cost.bytes.kv + cost.bytes.recurrent, 0);
  assert.ok(cost.flops >= 2 * 3 * (192 * 64 + 64 * 96));
});

Deno.test("cost: a gather counts what it reads, not the whole table", () => {
  const t = new Tape();
  t.emit(embed, {
    history: t.state("history", "u32", [100]),
    step: t.state("step", "u32", [STEP_WORDS]),
    table: t.weight("table", "q8g64_bf16", [5000, 128]),
    y: t.scratch("y", "f32", [2, 128]),
  }, { ahead: 0 });
  const cost = costOfRecord(t.records[0], t.slots, { pos: 7 });
  assert.equal(cost.bytes.weights, 2 * (128 + 128 / 64 * 4));
  assert.equal(cost.bytes.scratch, 2 * 128 * 4);
});

Deno.test("cost: names decide what state is", () => {
  const t = new Tape();
  const part = (name: string) => partOf(t.slots[t.state(name, "f32", [1]).slots[0]]);
  assert.equal(part("kv.k.3"), "kv");
  assert.equal(part("gdn.states"), "recurrent");
  assert.equal(part("conv.states"), "recurrent");
  assert.equal(part("step"), "control");
  assert.equal(partOf(t.slots[t.weight("w", "f32", [1]).slots[0]]), "weights");
  assert.equal(partOf(t.slots[t.scratch("s", "f32", [1]).slots[0]]), "scratch");
});
