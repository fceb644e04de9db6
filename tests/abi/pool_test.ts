/** The thread pool under stress: tiny jobs, far more threads than cores, several devices at once. */
import assert from "node:assert/strict";
import { Device } from "../../ffi/abi/handle.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { normal, seeded } from "../random.ts";
import { BoundTape } from "../tape/bound_tape.ts";

const DIM = 4;

/** A chain of records of 1, 2, 3, ... tasks, each waiting for the one before. */
function tinyJobs(records: number): Tape {
  const t = new Tape();
  const x = t.state("x", "f32", [17, DIM]), y = t.state("y", "f32", [17, DIM]);
  const w = t.weight("w", "f32", [DIM]);
  for (let i = 0; i < records; i++) {
    const rows = 1 + i % 17;
    const [from, to] = i % 2 ? [y, x] : [x, y];
    t.emit(rmsNorm, {
      x: t.view(from, 0, [rows, DIM]),
      w,
      y: t.view(to, 0, [rows, DIM]),
    }, { eps: 0.5 });
  }
  return t;
}

const planned = planTape(tinyJobs(600));

function fill(bound: BoundTape): void {
  const random = seeded(3);
  const some = (n: number) => Float32Array.from({ length: n }, () => normal(random));
  bound.memory("x").write(0, some(17 * DIM));
  bound.memory("y").write(0, some(17 * DIM));
  bound.memory("w").write(0, some(DIM));
}

function result(bound: BoundTape): Uint8Array[] {
  return bound.owned.map((slot) => bound.read(slot));
}

const one = Device.open("cpu", 0, 1);
using serial = new BoundTape(one, planned);
fill(serial);
serial.tape.play(20);
const want = result(serial);

Deno.test("pool: every record waits for the one before", () => {
  assert.equal(planned.waits.filter(Boolean).length, 599);
});

for (const threads of [2, 3, 16, 64]) {
  Deno.test(`pool: ${threads} threads give the bits of one`, () => {
    using device = Device.open("cpu", 0, threads);
    assert.equal(device.info.threads, threads);
    using bound = new BoundTape(device, planned);
    fill(bound);
    bound.tape.play(20);
    assert.deepEqual(result(bound), want);
  });
}

Deno.test("pool: threads that slept wake up for the next play", async () => {
  using device = Device.open("cpu", 0, 4);
  using bound = new BoundTape(device, planned);
  fill(bound);
  for (let i = 0; i < 20; i++) {
    bound.tape.play();
    // Long enough for every worker to give up looking and sleep.
    if (i % 4 === 0) await new Promise((done) => setTimeout(done, 5));
  }
  assert.deepEqual(result(bound), want);
});

Deno.test("pool: devices play side by side, tapes of one device in turn", async () => {
  const devices = [0, 1, 2].map(() => Device.open("cpu", 0, 3));
  const tapes = devices.flatMap((d) => [new BoundTape(d, planned), new BoundTape(d, planned)]);
  tapes.forEach(fill);
  const played = await Promise.all(tapes.map((t) => t.tape.playAsync(20)));
  assert.deepEqual(played, tapes.map(() => 20));
  for (const t of tapes) {
    assert.deepEqual(result(t), want);
    t[Symbol.dispose]();
  }
  devices.forEach((d) => d[Symbol.dispose]());
});

Deno.test("pool: devices come and go", () => {
  for (let i = 0; i < 50; i++) {
    using device = Device.open("cpu", 0, 1 + i % 9);
    if (i % 3) continue;
    using bound = new BoundTape(device, planned);
    bound.tape.play();
  }
});
