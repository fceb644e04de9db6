/** Devices, memory and tapes as handles: what is refused, and what outlives what. */
import assert from "node:assert/strict";
import { listDevices } from "../../engine/model.ts";
import { Device, NativeError, readRing, STATUS } from "../../ffi/abi/handle.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { HALT, STEP, STEP_WORDS } from "../../kernels/step.ts";
import { BoundTape } from "../tape/bound_tape.ts";

const cpu = Device.open("cpu", 0, 2);

function refused(act: () => unknown, says: RegExp, status: number = STATUS.refused): void {
  assert.throws(act, (e: Error) => {
    assert.ok(e instanceof NativeError, `${e}`);
    assert.match(e.message, says);
    assert.equal(e.status, status);
    return true;
  });
}

/** y = rms_norm(x), and a step block that a player watches. */
function normTape(): Tape {
  const t = new Tape();
  const x = t.state("x", "f32", [2, 8]), w = t.weight("w", "f32", [8]);
  t.emit(rmsNorm, { x, w, y: t.state("y", "f32", [2, 8]) }, { eps: 0 });
  t.state("step", "u32", [STEP_WORDS]);
  return t;
}

Deno.test("handles: a disposed one is refused by name, and disposing twice is fine", () => {
  const device = Device.open("cpu", 0, 1);
  const memory = device.alloc(64);
  memory[Symbol.dispose]();
  memory[Symbol.dispose]();
  assert.equal(memory.disposed, true);
  assert.throws(() => memory.read(0, new Uint8Array(1)), /This memory has been disposed/);
  device[Symbol.dispose]();
  device[Symbol.dispose]();
  assert.throws(() => device.alloc(1), /This device has been disposed/);
  assert.throws(() => device.kernels(), /This device has been disposed/);
  const bound = new BoundTape(cpu, planTape(normTape()));
  bound[Symbol.dispose]();
  assert.throws(() => bound.tape.play(), /This tape has been disposed/);
});

Deno.test("handles: memory outlives its device, a tape outlives its memory", () => {
  const device = Device.open("cpu", 0, 3);
  const planned = planTape(normTape());
  const bound = new BoundTape(device, planned);
  const x = bound.memory("x"), w = bound.memory("w"), y = bound.memory("y");
  x.write(0, new Float32Array(16).fill(2));
  w.write(0, new Float32Array(8).fill(3));
  device[Symbol.dispose]();
  w[Symbol.dispose]();
  assert.equal(bound.tape.play(), 1);
  const out = new Float32Array(16);
  y.read(0, out);
  assert.deepEqual([...out], Array(16).fill(3));
  bound[Symbol.dispose]();
});

Deno.test("handles: ranges of memory", () => {
  using m = cpu.alloc(100);
  const zeros = new Uint8Array(100).fill(1);
  m.read(0, zeros);
  assert.deepEqual(zeros, new Uint8Array(100));
  m.write(98, new Uint8Array(2));
  m.write(100, new Uint8Array(0));
  refused(() => m.write(99, new Uint8Array(2)), /Range 99 \+ 2 is outside memory \d+ of 100 bytes/);
  refused(() => m.read(101, new Uint8Array(0)), /outside memory/);
  refused(() => m.read(Number.MAX_SAFE_INTEGER, new Uint8Array(1)), /outside memory/);
  refused(() => cpu.alloc(0), /Cannot allocate 0 bytes/);
  refused(() => cpu.alloc(2 ** 52), /Cannot allocate/, STATUS.outOfMemory);
});

Deno.test("handles: copies between memories of one device", () => {
  using a = cpu.alloc(16);
  using b = cpu.alloc(16);
  a.write(0, Uint8Array.from({ length: 16 }, (_, i) => i));
  b.copyFrom(8, a, 4, 8);
  a.copyFrom(0, a, 8, 8);
  const out = new Uint8Array(16);
  b.read(0, out);
  assert.deepEqual([...out], [0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11]);
  a.read(0, out);
  assert.deepEqual([...out.subarray(0, 8)], [8, 9, 10, 11, 12, 13, 14, 15]);
  refused(() => a.copyFrom(0, a, 4, 8), /the ranges overlap/);
  refused(() => a.copyFrom(10, b, 0, 8), /outside memory/);
  using other = Device.open("null");
  using c = other.alloc(16);
  refused(() => a.copyFrom(0, c, 0, 8), /of different devices/);
});

Deno.test("handles: mapped files are read-only and must have the expected size", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeFile(path, Uint8Array.from({ length: 5000 }, (_, i) => i));
    using m = cpu.map(path, 5000);
    const out = new Uint8Array(3);
    m.read(4096, out);
    assert.deepEqual([...out], [0, 1, 2]);
    refused(() => m.write(0, out), /read-only/);
    refused(() => m.stepWrite(0, new Uint32Array(1)), /read-only/);
    refused(() => cpu.map(path, 4999), /it is not 4999 bytes long/, STATUS.io);
    refused(() => cpu.map(path + ".gone", 1), /Cannot open .*gone/, STATUS.io);
    const planned = planTape(normTape());
    const bindings = planned.slots.map((s) => ({ memory: m, offset: 0, bytes: s.bytes }));
    const load = () => cpu.load(encodeTape(planned), bindings, null);
    refused(load, /writes slot 2, which is read-only/);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("handles: bindings are checked", () => {
  const planned = planTape(normTape()), bytes = encodeTape(planned);
  using m = cpu.alloc(4096);
  const at = (offset: number, size: number) => ({ memory: m, offset, bytes: size });
  const good = [at(0, 64), at(64, 32), at(128, 64), at(256, 256)];
  cpu.load(bytes, good, 3)[Symbol.dispose]();
  refused(() => cpu.load(bytes, good.slice(1), null), /4 slots, 3 bindings/);
  refused(() => cpu.load(bytes, [at(0, 8000), ...good.slice(1)], null), /outside memory/);
  refused(() => cpu.load(bytes, [null, ...good.slice(1)], null), /needs 64 bytes of slot 0/);
  refused(() => cpu.load(bytes, [at(2, 64), ...good.slice(1)], null), /not aligned/);
  refused(() => cpu.load(bytes, [at(100, 64), ...good.slice(1)], null), /overlaps/);
  refused(() => cpu.load(bytes, good, 2), /slot 2 is no step block/);
  refused(() => cpu.load(bytes, good, 4), /slot 4 is no step block/);
  const odd = [...good.slice(0, 3), at(257, 256)];
  refused(() => cpu.load(bytes, odd, 3), /slot 3 is no step block/);
  using other = Device.open("null");
  using foreign = other.alloc(64);
  const mixed = [{ memory: foreign, offset: 0, bytes: 64 }, ...good.slice(1)];
  refused(() => cpu.load(bytes, mixed, null), /memory of another device/);
});

Deno.test("handles: a weight may lie at any byte of a file, other floats only at a whole word", () => {
  const t = new Tape();
  const x = t.state("x", "f32", [1, 8]), y = t.state("y", "f32", [1, 3]);
  t.emit(gemv, { x, w0: t.weight("w", "f32", [3, 8]), y }, { yCol: 0 });
  const bytes = encodeTape(planTape(t));
  using m = cpu.alloc(4096);
  const load = (x: number, y: number, w: number) =>
    cpu.load(bytes, [
      { memory: m, offset: x, bytes: 32 },
      { memory: m, offset: y, bytes: 12 },
      { memory: m, offset: w, bytes: 96 },
    ], null)[Symbol.dispose]();
  for (const odd of [1, 2, 3]) load(0, 64, 128 + odd);
  refused(() => load(2, 64, 128), /slot 0 is not aligned to 4 bytes/);
  refused(() => load(0, 66, 128), /slot 1 is not aligned to 4 bytes/);
});

Deno.test("handles: a halt ends a run of plays before the next one", () => {
  using bound = new BoundTape(cpu, planTape(normTape()), "step");
  const step = bound.memory("step");
  assert.equal(bound.tape.play(4), 4);
  for (const halt of [HALT.stopToken, HALT.budget, HALT.contextFull]) {
    step.stepWrite(STEP.halt, new Uint32Array([halt]));
    assert.equal(bound.tape.play(4), 0);
  }
  step.stepWrite(STEP.halt, new Uint32Array([HALT.running]));
  assert.equal(bound.tape.play(2), 2);
  const word = new Uint32Array(1);
  step.stepRead(STEP.halt, word);
  assert.equal(word[0], HALT.running);
  refused(() => step.stepRead(STEP_WORDS, word), /outside a step block/);
});

Deno.test("handles: a tape is played by one caller at a time", async () => {
  using bound = new BoundTape(cpu, planTape(normTape()));
  const first = bound.tape.playAsync(500);
  await assert.rejects(bound.tape.playAsync(1), /already being played/);
  assert.equal(await first, 500);
  assert.equal(await bound.tape.playAsync(2), 2);
});

Deno.test("handles: sampled tokens are read from the ring, never beyond it", () => {
  using step = cpu.alloc(STEP_WORDS * 4);
  using history = cpu.alloc(10 * 4);
  history.write(0, Uint32Array.from({ length: 10 }, (_, i) => 100 + i));
  const to = new Uint32Array(4);
  assert.equal(readRing(step, history, 3, 0, to), 0);
  step.stepWrite(STEP.produced, new Uint32Array([6]));
  assert.equal(readRing(step, history, 3, 0, to), 4);
  assert.deepEqual([...to], [103, 104, 105, 106]);
  assert.equal(readRing(step, history, 3, 4, to), 2);
  assert.deepEqual([...to.subarray(0, 2)], [107, 108]);
  assert.equal(readRing(step, history, 3, 6, to), 0);
  step.stepWrite(STEP.produced, new Uint32Array([0xffffffff]));
  assert.equal(readRing(step, history, 8, 0, to), 2);
  assert.equal(readRing(step, history, 8, 5, to), 0);
  assert.equal(readRing(step, history, 0xffffffff, 0xfffffffe, to), 0);
});

Deno.test("handles: nothing is uploaded where files are used in place", () => {
  using memory = cpu.alloc(64);
  refused(() => memory.profileUpload(2), /uses files in place/);
});

Deno.test("handles: devices are listed with the threads that they have when nobody says", () => {
  using all = Device.open("cpu");
  const listed = listDevices().filter(({ kind }) => kind === "cpu");
  assert.ok(listed.length > 0 && listed.every(({ threads }) => threads === all.info.threads));
});

Deno.test("handles: devices that are not there", () => {
  refused(() => Device.open("cpu", 99), /No device 99 of this kind/, STATUS.device);
  refused(() => Device.open("cpu", 0, 5000), /5000 threads are more than 1024/);
  assert.equal(Device.count("null"), 1);
  const { info } = cpu;
  assert.equal(info.kind, "cpu");
  assert.equal(info.threads, 2);
  assert.ok(info.memoryBytes > 0 && info.isa.length > 0);
});
