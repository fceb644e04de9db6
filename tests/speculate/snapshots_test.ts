/** Snapshots under speculation: nested, restored twice, after plays that failed; nothing is left behind. */
import assert from "node:assert/strict";
import { GREEDY } from "../../engine/generation_config.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { LoadedTape, NativeError, STATUS } from "../../ffi/abi/handle.ts";
import {
  compare,
  draftAt,
  MODELS,
  type Pair,
  somePrompt,
  start,
  truthOf,
  withPair,
} from "./lockstep.ts";

const FROM = 20;

interface Run {
  readonly pair: Pair;
  readonly truth: readonly number[];
}

async function begun(run: (r: Run) => Promise<void>, name = MODELS.tiny): Promise<void> {
  await withPair(name, { draftHead: name === MODELS.tiny }, async (pair) => {
    const prompt = somePrompt(pair.model, FROM);
    const truth = await truthOf(pair.serial, prompt, 120);
    await start(pair, prompt);
    await compare(pair, "prompt");
    await run({ pair, truth });
  });
}

/** A round of five drafts, `right` of which are right. */
async function round({ pair, truth }: Run, right: number): Promise<void> {
  const { rounds, model } = pair;
  rounds.draft(draftAt(truth, rounds.pos, { length: 5, right }, model.config.vocab));
  await rounds.rounds(1, { rows: 6 });
}

Deno.test("snapshots nest, and each is restored as often as wanted", async () => {
  await begun(async (r) => {
    const { rounds, serial } = r.pair;
    using outer = rounds.snapshot(), outerSerial = serial.snapshot();
    await round(r, 3);
    await compare(r.pair, "first");
    using inner = rounds.snapshot(), innerSerial = serial.snapshot();
    for (let again = 0; again < 2; again++) {
      await round(r, again);
      await round(r, 5);
      rounds.restore(inner);
      serial.restore(innerSerial);
      await round(r, 2);
      const ids = await compare(r.pair, `inner, ${again}`);
      assert.deepEqual(ids, r.truth.slice(inner.pos + 1, inner.pos + 4));
    }
    for (let again = 0; again < 2; again++) {
      rounds.restore(outer);
      serial.restore(outerSerial);
      await round(r, 4 - again);
      const ids = await compare(r.pair, `outer, ${again}`);
      assert.deepEqual(ids, r.truth.slice(outer.pos + 1, outer.pos + 6 - again));
    }
  });
});

Deno.test("a snapshot brings its token and the run's counts back", async () => {
  await begun(async (r) => {
    const { rounds, serial } = r.pair;
    using behind = rounds.snapshot();
    await round(r, 5);
    assert.equal(rounds.take().length, 6);
    // Another timeline over the same positions, its first token where the snapshot's last one was.
    rounds.restore(behind);
    rounds.place(7);
    await rounds.decode(4);
    rounds.restore(behind);
    await round(r, 5);
    await compare(r.pair, "back on the first timeline");
    assert.equal(serial.pos, behind.pos + 6);
  });
});

Deno.test("the budget of a run goes back with it", async () => {
  await begun(async (r) => {
    const { rounds } = r.pair;
    rounds.reset();
    rounds.begin({ sampling: GREEDY, stopIds: [], limit: 5 });
    await rounds.prefill(somePrompt(r.pair.model, FROM));
    using behind = rounds.snapshot();
    for (let again = 0; again < 3; again++) {
      await round(r, 5);
      assert.equal(rounds.halted(), "budget");
      assert.equal(rounds.pos, FROM + 4);
      rounds.restore(behind);
      assert.equal(rounds.halted(), "running");
    }
  });
});

Deno.test("handles of one snapshot share its bytes until the last is disposed", async () => {
  await begun(async (r) => {
    const { rounds, model } = r.pair;
    await round(r, 1);
    await compare(r.pair, "the width's scratch is there");
    const before = model.device.use.now;
    const one = rounds.snapshot(), bytes = one.bytes;
    assert.equal(model.device.use.now, before + bytes);
    const two = one.alias();
    assert.equal(model.device.use.now, before + bytes);
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    assert.equal(model.device.use.now, before + bytes);
    assert.throws(() => one.alias(), /disposed/);
    assert.throws(() => rounds.restore(one), /disposed/);
    await round(r, 1);
    rounds.restore(two);
    await round(r, 5);
    await compare(r.pair, "by the other handle");
    two[Symbol.dispose]();
    assert.equal(model.device.use.now, before);
    using other = new Session(model, { ctx: 64 });
    using theirs = other.snapshot();
    assert.throws(() => rounds.restore(theirs), /another session/);
  });
});

Deno.test("a copy of a snapshot has bytes of its own and outlives it", async () => {
  await begun(async (r) => {
    const { rounds, serial, model } = r.pair;
    await round(r, 1);
    await compare(r.pair, "the width's scratch is there");
    using behind = serial.snapshot();
    const before = model.device.use.now;
    const one = rounds.snapshot(), copy = one.copy(), { pos, bytes } = copy;
    assert.deepEqual([pos, bytes], [one.pos, one.bytes]);
    assert.equal(model.device.use.now, before + 2 * bytes);
    const other = copy.alias();
    one[Symbol.dispose]();
    assert.equal(model.device.use.now, before + bytes);
    assert.throws(() => one.copy(), /disposed/);
    for (const handle of [copy, other]) {
      await round(r, 3);
      rounds.restore(handle);
      serial.restore(behind);
      await round(r, 5);
      const ids = await compare(r.pair, "by the copy");
      assert.deepEqual(ids, r.truth.slice(pos + 1, pos + 7));
      handle[Symbol.dispose]();
    }
    assert.equal(model.device.use.now, before);
  });
});

Deno.test("a copy that runs out of memory leaves nothing behind", async () => {
  await begun(async (r) => {
    const { rounds, model } = r.pair, { device } = model;
    using snapshot = rounds.snapshot();
    const before = device.use.now, real = device.alloc.bind(device);
    let left = 1;
    device.alloc = (bytes) => {
      if (left-- === 0) throw new NativeError("out of memory", STATUS.device, null, 0);
      return real(bytes);
    };
    try {
      assert.throws(() => snapshot.copy(), NativeError);
    } finally {
      device.alloc = real;
    }
    assert.equal(device.use.now, before);
    rounds.restore(snapshot);
    await round(r, 5);
    await compare(r.pair, "after it");
  });
});

/** The next call into the device fails: before it did anything, or when all was done. */
async function failing(when: "before" | "after", body: () => Promise<unknown>): Promise<void> {
  const { play, playAsync } = LoadedTape.prototype;
  const lost = () => new NativeError("The device was lost", STATUS.device, null, 0);
  LoadedTape.prototype.play = function (times) {
    if (when === "after") play.call(this, times);
    throw lost();
  };
  LoadedTape.prototype.playAsync = async function (times) {
    if (when === "after") await playAsync.call(this, times);
    throw lost();
  };
  try {
    await assert.rejects(body, NativeError);
  } finally {
    Object.assign(LoadedTape.prototype, { play, playAsync });
  }
}

for (const when of ["before", "after"] as const) {
  Deno.test(`a snapshot is as it was after a play that failed ${when} its work`, async () => {
    await begun(async (r) => {
      const { rounds } = r.pair;
      await round(r, 2);
      await compare(r.pair, "before");
      using kept = rounds.snapshot();
      for (let again = 0; again < 2; again++) {
        await failing(when, () => round(r, 3));
        rounds.restore(kept);
      }
      await round(r, 3);
      await compare(r.pair, "after the failure");
      await failing(when, () => rounds.decode(4));
      rounds.restore(kept);
      assert.equal(rounds.pos, kept.pos);
      await round(r, 5);
      assert.deepEqual([...rounds.take()], r.truth.slice(kept.pos + 1, kept.pos + 7));
    });
  });
}

Deno.test("a refused play leaves the session as it was", async () => {
  await begun(async (r) => {
    const { rounds } = r.pair;
    rounds.tapeFor(6, rounds.pos + 6, "round").loaded[Symbol.dispose]();
    await assert.rejects(() => round(r, 3), /disposed/);
    await rounds.rounds(1, { rows: 4 });
    await compare(r.pair, "another width");
  });
});

Deno.test("sessions, snapshots, heads and rounds leave no memory behind", async () => {
  using device = openDevice({ kind: "cpu" });
  {
    using model = await openModel("tiny", { device, env: {}, draftHead: true });
    const loaded = device.use.now;
    for (let again = 0; again < 2; again++) {
      using session = new Session(model, { ctx: 128, draftHead: true });
      session.begin({ sampling: GREEDY, stopIds: [], limit: 50 });
      await session.prefill(somePrompt(model, FROM), undefined, 2);
      using snapshot = session.snapshot();
      using _ = snapshot.alias();
      await session.rounds(3, { rows: 3, drafts: 2 });
      session.restore(snapshot);
      await session.rounds(3, { rows: 16, drafts: 15 });
    }
    assert.equal(device.use.now, loaded);
  }
  assert.equal(device.use.now, 0);
});
