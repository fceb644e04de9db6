/** The bytes that native code loads, word by word, and the hash that names them. */
import assert from "node:assert/strict";
import * as layout from "../../ffi/abi/layout.ts";
import { encodeTape, hashTape } from "../../ffi/tape/encode.ts";
import { kernelTable } from "../../ffi/tape/op_ids.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { mix } from "./sample_ops.ts";
import { chainTape } from "./real_tapes.ts";

const WORD = 4;

function wordsOf(bytes: Uint8Array<ArrayBuffer>, record: number): Uint32Array {
  const at = layout.TAPE_HEAD_BYTES + record * layout.RECORD_BYTES;
  return new Uint32Array(bytes.slice(at, at + layout.RECORD_BYTES).buffer);
}

Deno.test("encode: the header counts records and slots", () => {
  const planned = planTape(chainTape()), bytes = encodeTape(planned);
  const head = new Uint32Array(bytes.slice(0, layout.TAPE_HEAD_BYTES).buffer);
  const { TAPE_MAGIC, ABI_VERSION } = layout;
  assert.deepEqual([...head], [TAPE_MAGIC, ABI_VERSION, 5, planned.slots.length]);
  assert.equal(bytes.length, layout.TAPE_HEAD_BYTES + 5 * layout.RECORD_BYTES);
  assert.equal(layout.RECORD_BYTES, 192);
});

Deno.test("encode: kernel, flags, grid, slots, axes and parameters of a record", () => {
  const t = new Tape();
  const x = t.state("x", "f32", [3, 64]), y = t.state("y", "f32", [3, 20]);
  const w0 = t.weight("w0", "q8g64_f16", [7, 64]), w2 = t.weight("w2", "q8g64_f16", [9, 64]);
  t.emit(gemv, { x, w0, w2, y }, { yCol: 4 });
  const words = wordsOf(encodeTape(planTape(t)), 0);
  assert.equal(kernelTable()[words[0]].name, "gemv__q8g64_f16");
  assert.deepEqual([...words.subarray(1, 8)], [0, 1, 1, 1, 1, 0, 0]);
  const none = layout.NO_SLOT, first = layout.RECORD_HEAD_WORDS;
  const slots = [0, 2, 3, 4, none, none, none, 5, 6, 7, none, none, none, 1]
    .concat(Array(layout.SLOTS_MAX - 14).fill(none));
  assert.deepEqual([...words.subarray(first, first + layout.SLOTS_MAX)], slots);
  // rows, inDim, out0, out1, out2, out3, yStride, yCol: axes in order of first use, absent ones 0.
  const sizes = [...words.subarray(first + layout.SLOTS_MAX)];
  assert.deepEqual(sizes, [3, 64, 7, 0, 9, 0, 20, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
});

Deno.test("encode: f32 parameters are their bits, and a wait is a flag", () => {
  const t = new Tape();
  const x = t.state("x", "f32", [2, 5]), w = t.weight("w", "f32", [5]);
  const y = t.scratch("y", "f32", [2, 5]), z = t.state("z", "f32", [2, 5]);
  t.emit(rmsNorm, { x, w, y }, { eps: 1e-6 });
  t.emit(rmsNorm, { x: y, w, y: z }, { eps: 1e-5 });
  const bytes = encodeTape(planTape(t));
  const [a, b] = [wordsOf(bytes, 0), wordsOf(bytes, 1)];
  assert.deepEqual([a[1], b[1]], [0, layout.FLAG_WAIT]);
  const at = layout.RECORD_HEAD_WORDS + layout.SLOTS_MAX + 2;
  const eps = [a, b].map((r) => new Float32Array(r.slice(at, at + 1).buffer)[0]);
  assert.deepEqual(eps, [1e-6, 1e-5].map(Math.fround));
});

Deno.test("encode: the same tape gives the same bytes and hash, another one another hash", async () => {
  const hashOf = async (t: Tape) => {
    const planned = planTape(t), bytes = encodeTape(planned);
    return [await hashTape(planned, bytes), bytes] as const;
  };
  const [first, bytes] = await hashOf(chainTape());
  const [second, again] = await hashOf(chainTape());
  assert.equal(first, second);
  assert.deepEqual(bytes, again);
  assert.match(first, /^[0-9a-f]{64}$/);
  const longer = chainTape();
  longer.emit(rmsNorm, {
    x: longer.find("x")!,
    w: longer.find("norm")!,
    y: longer.scratch("more", "f32", [3, 64]),
  }, { eps: 1 });
  assert.notEqual((await hashOf(longer))[0], first);
  // Same records, but another name in the slot table: another tape.
  const planned = planTape(chainTape());
  const slots = planned.slots.map((s) => s.name === "x" ? { ...s, name: "renamed" } : s);
  assert.notEqual(await hashTape({ ...planned, slots }, bytes), first);
});

Deno.test("encode: kernel ids are the places in the generated table", () => {
  const names = kernelTable().map((k) => k.name);
  assert.equal(new Set(names).size, names.length);
  const planned = planTape(chainTape()), bytes = encodeTape(planned);
  planned.records.forEach((r, i) => assert.equal(names[wordsOf(bytes, i)[0]], r.kernel));
  assert.equal(bytes.length % WORD, 0);
});

Deno.test("encode: an op that the table does not list is refused", () => {
  const t = new Tape();
  const a = t.state("a", "f32", [4]);
  t.emit(mix, { a, b: a, y: t.state("y", "f32", [4]) }, {});
  assert.throws(() => encodeTape(planTape(t)), /Cannot encode mix: .* no such kernel/);
});
