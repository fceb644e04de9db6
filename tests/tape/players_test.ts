/** Whole tapes: the CPU against the reference player, and records between two waits in any order. */
import assert from "node:assert/strict";
import { Device } from "../../ffi/abi/handle.ts";
import { type PlannedTape, planTape } from "../../ffi/tape/plan.ts";
import { fillMemory, playReference, type ReferenceMemory } from "../../ffi/tape/reference.ts";
import { unpackWeight } from "../../kernels/formats/affine.ts";
import { isAffine } from "../../kernels/formats/affine.ts";
import type { RefArray } from "../../kernels/define.ts";
import { decodeParts } from "../ops/tensor_data.ts";
import { normal, type Random, seeded } from "../random.ts";
import { BoundTape } from "./bound_tape.ts";
import { chainTape, randomRealTape } from "./real_tapes.ts";
import { randomTape } from "./sample_ops.ts";

// Opened here, so that no single test owns the library.
const cpu = Device.open("cpu", 0, 3);

/** Random contents of every slot of the host's memory. */
function contents(p: PlannedTape, slots: readonly number[], random: Random) {
  return new Map(slots.map((slot) => {
    const { bytes, dtype, part } = p.slots[slot];
    if (dtype === "f32" || part !== "values") {
      const values = Float64Array.from(
        { length: bytes / (part === "values" ? 4 : 2) },
        () => normal(random) / 8,
      );
      return [slot, part === "values" ? f32(values) : halves(values)];
    }
    if (isAffine(dtype)) {
      return [slot, Uint8Array.from({ length: bytes }, () => Math.floor(random() * 256))];
    }
    return [slot, halves(Float64Array.from({ length: bytes / 2 }, () => normal(random) / 8))];
  }));
}

const f32 = (v: Float64Array) => new Uint8Array(Float32Array.from(v).buffer);
/** bf16 by cutting off, good enough for inputs. */
function halves(v: Float64Array): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Float32Array.from(v).buffer);
  return new Uint8Array(Uint16Array.from(words, (w) => w >>> 16).buffer);
}

/** The same contents for the reference player. */
function referenceMemory(
  p: PlannedTape,
  bytes: Map<number, Uint8Array<ArrayBuffer>>,
): ReferenceMemory {
  const memory: ReferenceMemory = new Map();
  for (const [slot, values] of bytes) {
    const s = p.slots[slot];
    if (s.part !== "values") continue;
    const parts = { values, scales: bytes.get(slot + 1)!, biases: bytes.get(slot + 2)! };
    const array: RefArray = isAffine(s.dtype)
      ? unpackWeight(s.dtype, parts)
      : decodeParts(s.dtype, s.shape, [values]);
    memory.set(slot, array);
  }
  fillMemory(p, memory);
  return memory;
}

Deno.test("players: reference and CPU agree on a chain of ops", () => {
  const planned = planTape(chainTape());
  using bound = new BoundTape(cpu, planned);
  const bytes = contents(planned, bound.owned, seeded(5));
  for (const [slot, b] of bytes) bound.write(slot, b);
  const memory = referenceMemory(planned, bytes);
  for (let play = 0; play < 3; play++) {
    bound.tape.play();
    playReference(planned, memory);
  }
  for (const name of ["x", "normed"]) {
    const slot = planned.slots.findIndex((s) => s.name === name);
    const got = new Float32Array(bound.read(slot).buffer), want = memory.get(slot)!;
    const rms = Math.hypot(...want) / Math.sqrt(want.length);
    assert.ok(rms > 0.1, `${name} is all but zero`);
    got.forEach((v, i) => {
      assert.ok(Math.abs(v - want[i]) < 2e-5 * rms, `${name}[${i}]: ${v}, not ${want[i]}`);
    });
  }
});

Deno.test("players: the reference player refuses weights without values", () => {
  assert.throws(() => fillMemory(planTape(chainTape()), new Map()), /no values for norm/);
});

Deno.test("players: part of a tape can be played", () => {
  const planned = planTape(chainTape());
  const bytes = new Map(
    planned.slots.flatMap((s, i) =>
      s.kind === "weight" ? [[i, new Uint8Array(s.bytes).fill(60)] as const] : []
    ),
  );
  const whole = referenceMemory(planned, bytes), halved = referenceMemory(planned, bytes);
  playReference(planned, whole);
  playReference(planned, halved, 0, 2);
  playReference(planned, halved, 2);
  for (const [slot, values] of whole) assert.deepEqual(halved.get(slot), values);
});

/** The same plan with the records between two waits in another order. */
function shuffled(p: PlannedTape, random: Random): { planned: PlannedTape; moved: number } {
  const phases: number[][] = [];
  p.records.forEach((_, i) => {
    if (i === 0 || p.waits[i]) phases.push([]);
    phases[phases.length - 1].push(i);
  });
  for (const phase of phases) {
    for (let i = phase.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [phase[i], phase[j]] = [phase[j], phase[i]];
    }
  }
  const order = phases.flat();
  const waits = phases.flatMap((phase, n) => phase.map((_, i) => n > 0 && i === 0));
  const planned = { ...p, records: order.map((i) => p.records[i]), waits };
  return { planned, moved: order.filter((from, to) => from !== to).length };
}

/** Plays sample ops in f64 over one arena laid out as planned, so that a planner's mistake shows. */
function playInArena(p: PlannedTape): Map<string, Float64Array> {
  const arena = new Float64Array(p.scratchBytes / 4);
  const states = new Map<string, Float64Array>();
  for (const s of p.slots) {
    if (s.kind !== "state" || states.has(p.slots[s.base].name)) continue;
    const name = p.slots[s.base].name;
    states.set(
      name,
      Float64Array.from({ length: p.slots[s.base].bytes / 4 }, (_, i) => i + name.length),
    );
  }
  for (const r of p.records) {
    const arrays = Object.fromEntries(
      Object.entries(r.tensors).map(([key, t]) => {
        const s = p.slots[t.slots[0]];
        const whole = s.kind === "scratch" ? arena : states.get(p.slots[s.base].name)!;
        const begin = (s.kind === "scratch" ? p.offsets[t.slots[0]] : s.offset) / 4;
        return [key, whole.subarray(begin, begin + s.bytes / 4)];
      }),
    );
    r.op.reference(arrays as never, r.params as never, r.sizes);
  }
  return states;
}

Deno.test("players: records between two waits in random order give the same result (planner)", () => {
  let moved = 0;
  for (let seed = 1; seed <= 100; seed++) {
    const random = seeded(seed);
    const planned = planTape(randomTape(random, 30));
    const want = playInArena(planned);
    for (let n = 0; n < 3; n++) {
      const other = shuffled(planned, random);
      moved += other.moved;
      assert.deepEqual(playInArena(other.planned), want, `seed ${seed}`);
    }
  }
  assert.ok(moved > 100, "nothing was reordered");
});

Deno.test("players: records between two waits in random order give the same bits (CPU)", () => {
  let moved = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const planned = planTape(randomRealTape(random, 24));
    const other = shuffled(planned, random);
    moved += other.moved;
    using a = new BoundTape(cpu, planned);
    using b = new BoundTape(cpu, other.planned);
    for (const [slot, bytes] of contents(planned, a.owned, random)) {
      a.write(slot, bytes);
      if (b.owned.includes(slot)) b.write(slot, bytes);
    }
    a.tape.play(3);
    b.tape.play(3);
    for (const slot of a.owned) assert.deepEqual(b.read(slot), a.read(slot), `seed ${seed}`);
  }
  assert.ok(moved > 20, "nothing was reordered");
});
