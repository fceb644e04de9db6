/** The CUDA player on a real device: memory, errors, and the same bits from every way of playing. */
import assert from "node:assert/strict";
import { GREEDY } from "../../engine/generation_config.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { Device, type LoadedTape, type Memory, NativeError } from "../../ffi/abi/handle.ts";
import { STATUS } from "../../ffi/abi/layout.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { stepMove } from "../../kernels/ops/step_move/op.ts";
import { HALT, STEP, STEP_WORDS } from "../../kernels/step.ts";

const FIXTURE = new URL("../fixtures/qwen35-moe-tiny/mlx4", import.meta.url).pathname;

function cudaTest(name: string, run: () => Promise<void> | void): void {
  Deno.test({
    name: `cuda: ${name} (needs an NVIDIA device)`,
    ignore: Device.count("cuda") === 0,
    fn: run,
  });
}

Deno.test("cuda: without a device, one line says why", () => {
  if (Device.count("cuda") > 0) return;
  assert.throws(
    () => openDevice({ kind: "cuda" }),
    (e) =>
      e instanceof NativeError && e.status === STATUS.device &&
      /^Cannot open a cuda device: (there is no NVIDIA driver|this library was built without|the NVIDIA driver)/
        .test(e.message),
  );
});

cudaTest("more memory than there is is refused, and nothing is lost", () => {
  using device = openDevice({ kind: "cuda" });
  const before = device.info.memoryFreeBytes;
  assert.throws(
    () => device.alloc(before * 2),
    (e) =>
      e instanceof NativeError && e.status === STATUS.outOfMemory &&
      /^Cannot allocate \d+ bytes on .*, which has \d+ free: out of memory/.test(e.message),
  );
  assert.equal(device.info.memoryFreeBytes, before);
  using small = device.alloc(1 << 20);
  const bytes = Uint8Array.of(1, 2, 3);
  small.read((1 << 20) - 3, bytes);
  assert.deepEqual([...bytes], [0, 0, 0]);
});

cudaTest("pinned memory is copied as fast as a bus, and to all of a memory", () => {
  using device = openDevice({ kind: "cuda" });
  using memory = device.alloc(64 << 20);
  const last = new Uint8Array(1), at = memory.bytes - 1;
  memory.write(at, Uint8Array.of(1));
  const ns = [...memory.profileUpload(4)!].map(Number);
  assert.equal(ns.length, 4);
  // From the first generation of PCIe with one lane to NVLink between chips.
  for (const one of ns) assert(memory.bytes / one > 0.1 && memory.bytes / one < 1000, `${one} ns`);
  memory.read(at, last);
  assert.equal(last[0], 0);
});

const IDS = Uint32Array.from({ length: 100 }, (_, i) => (i * 7919 + 13) % 500);

const TOKENS = 25;

async function tokens(session: Session, plays: number): Promise<number[]> {
  session.reset();
  session.begin({ sampling: GREEDY, stopIds: [], limit: TOKENS });
  await session.prefill(IDS);
  while (await session.decode(plays) === "running");
  return [...session.take()];
}

cudaTest("a model that is opened, played and closed leaves no memory behind", async () => {
  using device = openDevice({ kind: "cuda" });
  const free: number[] = [];
  for (let i = 0; i < 4; i++) {
    {
      using model = await openModel(FIXTURE, { device, env: {} });
      using session = new Session(model, { ctx: 256 });
      await tokens(session, 8);
    }
    free.push(device.info.memoryFreeBytes);
  }
  // The first round makes what the driver keeps for the next ones.
  assert.deepEqual(free.slice(1), [free[1], free[1], free[1]]);
});

cudaTest("one token a call, many a call, first plays and graphs make the same bits", async () => {
  using device = openDevice({ kind: "cuda" });
  using model = await openModel(FIXTURE, { device, env: {} });
  const runs: { made: number[]; states: ReadonlyMap<string, Uint8Array> }[] = [];
  for (const plays of [1, 24, 5, 1]) {
    // A session's tapes are its own: each begins with direct plays and goes on with graphs.
    using session = new Session(model, { ctx: 256 });
    for (let again = 0; again < 2; again++) {
      const made = await tokens(session, plays);
      runs.push({ made, states: session.readStates() });
    }
  }
  for (const run of runs.slice(1)) assert.deepEqual(run, runs[0]);
});

const STEP_BYTES = STEP_WORDS * 4;

/** Moves the position of a step block by one. */
function moves(device: Device, memory: Memory, offset: number, watched: boolean): LoadedTape {
  const tape = new Tape();
  tape.emit(stepMove, { step: tape.state("step", "u32", [STEP_WORDS]) }, { rows: 1 });
  const bytes = encodeTape(planTape(tape), "threadgroups");
  return device.load(bytes, [{ memory, offset, bytes: STEP_BYTES }], watched ? 0 : null);
}

/** The words of a step block at a memory's begin, which are also what the device has there. */
function words(device: Device, step: Memory): Uint32Array {
  const told = new Uint32Array(STEP_WORDS), there = new Uint32Array(STEP_WORDS);
  step.stepRead(0, told);
  using copy = device.alloc(STEP_BYTES);
  copy.copyFrom(0, step, 0, STEP_BYTES);
  copy.read(0, there);
  assert.deepEqual(told, there);
  return told;
}

cudaTest("a step block is what plays, writes and copies left there", () => {
  using device = openDevice({ kind: "cuda" });
  using step = device.alloc(2 * STEP_BYTES);
  using from = device.alloc(2 * STEP_BYTES);
  const pos = () => words(device, step)[STEP.pos];
  step.stepWrite(STEP.limit, Uint32Array.of(7));
  using tape = moves(device, step, 0, true);
  assert.equal(words(device, step)[STEP.limit], 7);
  for (const [times, at] of [[1, 1], [3, 4], [1, 5], [40, 45]]) {
    assert.equal(tape.play(times), times);
    assert.equal(pos(), at);
  }
  step.stepWrite(STEP.halt, Uint32Array.of(HALT.budget));
  assert.equal(tape.play(3), 0);
  from.write(0, Uint32Array.of(100, HALT.running));
  step.copyFrom(0, from, 0, 8);
  assert.equal(pos(), 100);
  assert.equal(tape.play(2), 2);
  step.write(0, Uint8Array.of(7));
  assert.equal(tape.play(1), 1);
  assert.equal(pos(), 8);
  tape.profile(1);
  assert.equal(pos(), 9);
  // What another tape does with the memory is seen too.
  using other = moves(device, step, 0, false);
  assert.equal(other.play(3), 3);
  assert.equal(pos(), 12);
  assert.equal(tape.play(2), 2);
  assert.equal(other.play(1), 1);
  assert.equal(pos(), 15);
  step.stepWrite(STEP.halt, Uint32Array.of(HALT.budget));
  assert.equal(tape.play(1), 0);
  using second = moves(device, step, STEP_BYTES, true);
  assert.equal(second.play(4), 4);
  assert.equal(pos(), 15);
});

cudaTest("small writes arrive in their order, however many there are", () => {
  using device = openDevice({ kind: "cuda" });
  using memory = device.alloc(1 << 20);
  const want = new Uint8Array(1 << 20), got = new Uint8Array(1 << 20);
  for (let i = 0; i < 3000; i++) {
    const at = i * 7919 % (want.length - 40_000), n = i % 50 === 0 ? 40_000 : 1 + i * 31 % 500;
    const bytes = new Uint8Array(n).fill(i);
    want.set(bytes, at);
    memory.write(at, bytes);
    if (i % 200 === 0) memory.read(0, got);
  }
  memory.read(0, got);
  assert.deepEqual(got, want);
});

cudaTest("a file arrives whole, and one of another length not at all", async () => {
  using device = openDevice({ kind: "cuda" });
  const path = await Deno.makeTempFile();
  try {
    for (const bytes of [1, 4 << 20, (70 << 20) + 13]) {
      const want = Uint8Array.from({ length: bytes }, (_, i) => i * 31 + (i >>> 13));
      await Deno.writeFile(path, want);
      using memory = device.map(path, bytes);
      const got = new Uint8Array(bytes);
      memory.read(0, got);
      assert(got.every((b, i) => b === want[i]), `${bytes} bytes`);
      assert.throws(() => device.map(path, bytes + 1), /it is not \d+ bytes long/);
    }
  } finally {
    await Deno.remove(path);
  }
  assert.throws(() => device.map(path, 1), /Cannot open/);
});
