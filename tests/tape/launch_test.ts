/** What each op says of its launch as threadgroups, at every tested size, and that a record carries it. */
import assert from "node:assert/strict";
import * as layout from "../../ffi/abi/layout.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import type { Op, Sizes } from "../../kernels/define.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { OPS } from "../../kernels/table.ts";
import { casesOf, type OpCase } from "../ops/op_case.ts";
import { recordCase } from "../ops/record_case.ts";
import { chainTape } from "./real_tapes.ts";
import { asOp } from "./sample_ops.ts";

const SIMD = 32;
const GROUPS_MAX = 2 ** 31;

interface Launched {
  readonly op: Op;
  readonly threads: number;
  readonly groups: (s: Sizes) => readonly number[];
}

const LAUNCHED: readonly Launched[] = OPS.flatMap((op) =>
  "none" in op.simt ? [] : [{ op, ...op.simt }]
);
const HOST_ONLY: readonly { op: Op; why: string }[] = OPS.flatMap((op) =>
  "none" in op.simt ? [{ op, why: op.simt.none }] : []
);

/** Words 2..5 of a record's head: groups x, y, z, threads. */
function launchOf(tape: Uint8Array<ArrayBuffer>, record: number): number[] {
  const at = layout.TAPE_HEAD_BYTES + record * layout.RECORD_BYTES;
  return [...new Uint32Array(tape.slice(at, at + layout.RECORD_BYTES).buffer).subarray(2, 6)];
}

/** The smallest case of each kernel. */
function smallest(op: Op): OpCase[] {
  const volume = (c: OpCase) => Object.values(c.sizes).reduce((a, b) => a * Math.max(1, b), 1);
  const first = new Map<string, OpCase>();
  for (const c of casesOf(op)) {
    const known = first.get(c.kernel);
    if (!known || volume(c) < volume(known)) first.set(c.kernel, c);
  }
  return [...first.values()];
}

/** The same op, which has no kernel for threadgroups. */
function hostOnly(op: Op): Op {
  return { ...op, simt: { none: "the host does it" } };
}

Deno.test("launch: threads are whole simdgroups that a threadgroup can have", () => {
  for (const { op, threads } of LAUNCHED) {
    assert.ok(
      threads % SIMD === 0 && threads >= SIMD && threads <= layout.THREADS_MAX,
      `${op.name}: ${threads} threads`,
    );
  }
});

Deno.test("launch: every case has whole, positive groups, and a player can count them", () => {
  for (const { op, groups } of LAUNCHED) {
    for (const c of casesOf(op)) {
      const xyz = groups(c.sizes), text = `${c.label}: groups ${xyz}`;
      assert.equal(xyz.length, 3, text);
      for (const n of xyz) assert.ok(Number.isInteger(n) && n > 0, text);
      assert.ok(xyz.reduce((a, b) => a * b, 1) < GROUPS_MAX, text);
    }
  }
});

Deno.test("launch: a record carries the groups and threads of its op", () => {
  for (const { op, threads, groups } of LAUNCHED) {
    for (const c of smallest(op)) {
      const { tape } = recordCase(c, "threadgroups");
      assert.deepEqual(launchOf(tape, 0), [...groups(c.sizes), threads], c.label);
    }
  }
});

Deno.test("launch: as tasks the same record has the CPU's tasks and one thread", () => {
  for (const { op } of LAUNCHED) {
    const [c] = smallest(op);
    assert.deepEqual(
      launchOf(recordCase(c, "tasks").tape, 0),
      [op.tasks(c.sizes), 1, 1, 1],
      c.label,
    );
  }
});

Deno.test("launch: the two forms of a tape differ in the launch words alone", () => {
  const planned = planTape(chainTape());
  const tasks = encodeTape(planned, "tasks"), groups = encodeTape(planned, "threadgroups");
  planned.records.forEach((r, i) => {
    if ("none" in r.op.simt) throw new Error(`${r.op.name} has no launch`);
    const want = [...r.op.simt.groups(r.sizes), r.op.simt.threads];
    assert.deepEqual(launchOf(groups, i), want, r.kernel);
    const at = layout.TAPE_HEAD_BYTES + i * layout.RECORD_BYTES;
    for (const bytes of [tasks, groups]) bytes.fill(0, at + 8, at + 24);
  });
  assert.deepEqual(groups, tasks);
});

Deno.test("launch: groups follow the weight's format where a record has one", () => {
  const seen: Sizes[] = [];
  const watched = {
    ...gemv,
    simt: { threads: 64, groups: (s: Sizes) => (seen.push(s), [1, 1, 1] as const) },
  };
  const t = new Tape();
  const x = t.state("x", "f32", [1, 64]), y = t.state("y", "f32", [1, 16]);
  t.emit(watched, { x, w0: t.weight("w", "q8g32_f16", [16, 64]), y }, { yCol: 0 });
  encodeTape(planTape(t), "threadgroups");
  assert.equal(seen.length, 1);
  assert.deepEqual([seen[0].rows, seen[0].out0, seen[0].bits, seen[0].group], [1, 16, 8, 32]);
});

Deno.test("launch: an op without threadgroups is refused by name, and still has tasks", () => {
  for (const { op, why } of HOST_ONLY) {
    assert.ok(why.length > 0, `${op.name} does not say why`);
    const [c] = smallest(op);
    assert.throws(() => recordCase(c, "threadgroups"), {
      name: "RangeError",
      message: `Cannot launch ${op.name} as threadgroups: ${why}`,
    });
    assert.equal(launchOf(recordCase(c, "tasks").tape, 0)[0], op.tasks(c.sizes));
  }
  const t = new Tape();
  const x = t.state("x", "f32", [2, 5]), w = t.weight("w", "f32", [5]);
  t.emit(hostOnly(asOp(rmsNorm)), { x, w, y: t.state("y", "f32", [2, 5]) }, { eps: 1 });
  const planned = planTape(t);
  assert.throws(() => encodeTape(planned, "threadgroups"), {
    name: "RangeError",
    message: "Cannot launch rms_norm as threadgroups: the host does it",
  });
  assert.deepEqual(launchOf(encodeTape(planned), 0), [2, 1, 1, 1]);
});
