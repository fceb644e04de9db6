/** The Metal player plays: its bits, its command buffers and barriers, halting, reading while it plays. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { chainTape } from "../tape/real_tapes.ts";
import { HALT, STEP } from "../../kernels/step.ts";
import {
  Bound,
  built,
  fake,
  having,
  LIBRARY,
  live,
  metalTest,
  openEmulator,
  openMetal,
} from "./rig.ts";
import { contentsOf, counterTape, longTape } from "./tapes.ts";
import type { Tape } from "../../ffi/tape/tape.ts";
import { Device, readRing } from "../../ffi/abi/handle.ts";
import { openLibrary } from "../../ffi/abi/open.ts";

/** What the emulator makes of a tape. */
function emulated(tape: Tape, times: number, limit?: number, step?: string) {
  using device = openEmulator();
  using bound = new Bound(device, tape, step);
  bound.fill(contentsOf(limit));
  const played = bound.tape.play(times);
  return { played, contents: bound.contents() };
}

metalTest("the device names itself and its family", () => {
  assert.equal(Device.count("metal", openLibrary(LIBRARY)), 1);
  using device = openMetal();
  const { kind, name, isa, memoryBytes, memoryFreeBytes } = device.info;
  assert.deepEqual({ kind, name, isa }, { kind: "metal", name: "fake GPU", isa: "apple9" });
  assert.equal(memoryBytes, 8 * 2 ** 30);
  using memory = device.alloc(1 << 20);
  using again = openMetal();
  assert.equal(memory.bytes, 1 << 20);
  assert.equal(memoryFreeBytes, memoryBytes);
  assert.equal(again.info.memoryFreeBytes, memoryBytes);
});

metalTest("a chain of ops has the emulator's bits", () => {
  const want = emulated(chainTape(), 3).contents;
  using device = openMetal();
  using bound = new Bound(device, chainTape());
  bound.fill(contentsOf());
  assert.equal(bound.tape.play(3), 3);
  assert.deepEqual(bound.contents(), want);
});

metalTest("a play is one command buffer with one encoder and a barrier for each wait", () => {
  using device = openMetal();
  using bound = new Bound(device, longTape(12));
  bound.fill(contentsOf());
  const names = ["command buffers", "encoders", "commits", "barriers", "dispatches"];
  const before = fake.counts(...names);
  bound.tape.play();
  const delta = fake.counts(...names).map((n, i) => n - before[i]);
  assert.equal(bound.waits, 11);
  assert.deepEqual(delta, [1, 1, 1, bound.waits, 12]);
});

metalTest(
  "plays make nothing but command buffers and encoders, and memory becomes resident once",
  () => {
    const names = ["Buffer", "Library", "Function", "Pipeline", "Archive", "Queue", "Fence"]
      .map((c) => `made Fake${c}`).concat("residency commits", "made NSString", "made NSArray");
    using device = openMetal();
    using bound = new Bound(device, counterTape(), "step");
    bound.fill(contentsOf());
    const commits = fake.count("residency commits");
    bound.tape.play(2);
    assert.equal(fake.count("residency commits"), commits + 1);
    const before = fake.counts(...names), alive = live();
    bound.tape.play(30);
    assert.deepEqual(fake.counts(...names), before);
    assert.deepEqual(live(), alive);
  },
);

metalTest("without residency sets it plays as well", () => {
  const want = emulated(chainTape(), 1).contents;
  having("residencySets", 0, () => {
    using device = openMetal();
    using bound = new Bound(device, chainTape());
    bound.fill(contentsOf());
    bound.tape.play();
    assert.deepEqual(bound.contents(), want);
  });
});

for (const limit of [1, 2, 3, 4, 9]) {
  metalTest(`a run of 20 plays ends after exactly ${limit} when the budget says so`, () => {
    const want = emulated(counterTape(), 20, limit, "step");
    assert.equal(want.played, limit);
    for (let seed = 1; seed <= 5; seed++) {
      fake.set("seed", seed);
      using device = openMetal();
      using bound = new Bound(device, counterTape(), "step");
      bound.fill(contentsOf(limit));
      const empty = fake.count("empty dispatches");
      assert.equal(bound.tape.play(20), limit);
      assert.deepEqual(bound.contents(), want.contents);
      const step = new Uint32Array(bound.contents().get("step values")!.buffer);
      assert.equal(step[STEP.halt], HALT.budget);
      // At most two plays were queued behind the last one, and the one that found the halt let one more in.
      assert.ok(fake.count("empty dispatches") - empty <= 3 * 4);
      assert.equal(bound.tape.play(5), 0);
      assert.deepEqual(bound.contents(), want.contents);
    }
  });
}

metalTest("plays in flight are at most three", () => {
  using device = openMetal();
  using bound = new Bound(device, counterTape(), "step");
  bound.fill(contentsOf());
  bound.tape.play(40);
  assert.equal(fake.count("most in flight"), 3);
});

metalTest("a reader sees tokens in order while plays run", async () => {
  using device = openMetal();
  using bound = new Bound(device, counterTape(), "step");
  bound.fill(contentsOf());
  const step = bound.memory("step"), history = bound.memory("history");
  const all: number[] = [], out = new Uint32Array(64);
  const playing = bound.tape.playAsync(50);
  let done = false;
  playing.then(() => done = true);
  for (;;) {
    const last = done;
    all.push(...out.subarray(0, readRing(step, history, 1, all.length, out)));
    if (last) break;
    await new Promise((r) => setTimeout(r, 0));
  }
  assert.equal(await playing, 50);
  const words = new Uint32Array(bound.contents().get("history values")!.buffer);
  assert.deepEqual(all, [...words.subarray(1, 51)]);
});

Deno.test({
  name: "metal: a barrier left out is caught by the shuffled order",
  ignore: !built,
  fn: () => {
    const want = emulated(longTape(6), 1).contents;
    let caught = 0;
    for (let seed = 1; seed <= 8; seed++) {
      using device = openMetal();
      using bound = new Bound(device, longTape(6));
      bound.fill(contentsOf());
      fake.set("seed", seed);
      bound.tape.play();
      assert.deepEqual(bound.contents(), want);
      bound.fill(contentsOf());
      fake.set("dropBarrier", 3);
      bound.tape.play();
      const got = bound.contents();
      if (!Buffer.from(got.get("y values")!).equals(want.get("y values")!)) caught++;
    }
    assert.ok(caught >= 2, `caught in ${caught} of 8 orders`);
    assert.deepEqual(fake.misuses(), []);
  },
});
