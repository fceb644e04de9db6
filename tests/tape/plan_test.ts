/** Properties of plans over random tapes, against a slow check that looks at every pair of records. */
import assert from "node:assert/strict";
import { type PlannedTape, planTape } from "../../ffi/tape/plan.ts";
import type { TapeRecord } from "../../ffi/tape/tape.ts";
import { seeded } from "../random.ts";
import { randomTape } from "./sample_ops.ts";

const TAPES = 300;

interface Touch {
  readonly space: string;
  readonly begin: number;
  readonly end: number;
  readonly writes: boolean;
}

function touches(p: PlannedTape, r: TapeRecord): Touch[] {
  return Object.entries(r.tensors).map(([key, t]) => {
    const slot = p.slots[t.slots[0]];
    const begin = slot.kind === "scratch" ? p.offsets[t.slots[0]] : slot.offset;
    const space = slot.kind === "scratch" ? "arena" : p.slots[slot.base].name;
    return { space, begin, end: begin + slot.bytes, writes: r.op.tensors[key].role !== "in" };
  });
}

function conflict(a: readonly Touch[], b: readonly Touch[]): boolean {
  return a.some((x) =>
    b.some((y) =>
      x.space === y.space && x.begin < y.end && y.begin < x.end && (x.writes || y.writes)
    )
  );
}

function forRandomPlans(check: (p: PlannedTape, seed: number) => void): void {
  for (let seed = 1; seed <= TAPES; seed++) {
    const random = seeded(seed);
    check(planTape(randomTape(random, 3 + Math.floor(random() * 30))), seed);
  }
}

Deno.test("plan: conflicting records have a wait between them, and every wait has a reason", () => {
  let waits = 0, free = 0;
  forRandomPlans((p, seed) => {
    const all = p.records.map((r) => touches(p, r));
    let begin = 0;
    all.forEach((here, j) => {
      const reason = all.slice(begin, j).some((earlier) => conflict(earlier, here));
      assert.equal(p.waits[j], reason, `seed ${seed}, record ${j}`);
      if (reason) begin = j, waits++;
      else free++;
    });
  });
  assert.ok(waits > TAPES && free > TAPES, "the tapes are too simple to show anything");
});

Deno.test("plan: scratch that lives at the same time never shares memory", () => {
  let shared = 0;
  forRandomPlans((p, seed) => {
    const life = new Map<number, { first: number; last: number }>();
    p.records.forEach((r, i) => {
      for (const t of Object.values(r.tensors)) {
        const base = p.slots[t.slots[0]].base;
        if (p.slots[base].kind !== "scratch") continue;
        life.set(base, { first: life.get(base)?.first ?? i, last: i });
      }
    });
    const all = [...life];
    all.forEach(([a, x], i) => {
      for (const [b, y] of all.slice(i + 1)) {
        const apart = p.offsets[a] + p.slots[a].bytes <= p.offsets[b] ||
          p.offsets[b] + p.slots[b].bytes <= p.offsets[a];
        const together = x.first <= y.last && y.first <= x.last;
        assert.ok(apart || !together, `seed ${seed}: ${p.slots[a].name} and ${p.slots[b].name}`);
        if (!apart) shared++;
      }
    });
  });
  assert.ok(shared > TAPES, "hardly any memory is shared: the planner wastes it");
});

Deno.test("plan: offsets are aligned, inside the arena, and views follow their tensor", () => {
  forRandomPlans((p) => {
    p.slots.forEach((s, i) => {
      if (s.kind !== "scratch") return assert.equal(p.offsets[i], 0);
      assert.equal(p.offsets[s.base] % 256, 0);
      assert.equal(p.offsets[i], p.offsets[s.base] + s.offset);
      const used = p.records.some((r) => Object.values(r.tensors).some((t) => t.slots.includes(i)));
      if (used) assert.ok(p.offsets[i] + s.bytes <= p.scratchBytes);
    });
  });
});

Deno.test("plan: the same tape gives the same plan", () => {
  for (const seed of [1, 2, 3]) {
    const [a, b] = [0, 1].map(() => planTape(randomTape(seeded(seed), 30)));
    assert.deepEqual(a.offsets, b.offsets);
    assert.deepEqual(a.waits, b.waits);
    assert.equal(a.scratchBytes, b.scratchBytes);
  }
});
