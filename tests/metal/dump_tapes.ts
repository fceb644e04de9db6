/**
 * Writes tapes with the bits that the emulator gave, for tests/metal/suite.cc, which no Deno stands around: the
 * smallest parity case of each op, and whole tapes. Layout in tests/native/case_file.h, with one level, "metal". A
 * label `... times=N step=S` asks for a run. Usage: dump_tapes.ts FILE
 */
import { Device } from "../../ffi/abi/handle.ts";
import { openLibrary } from "../../ffi/abi/open.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import type { Tape } from "../../ffi/tape/tape.ts";
import type { Op } from "../../kernels/define.ts";
import { OPS } from "../../kernels/table.ts";
import { Output } from "../native/output.ts";
import { casesOf } from "../ops/op_case.ts";
import { caseData, contentsOf as contentsOfCase, recordCase } from "../ops/record_case.ts";
import { seeded } from "../random.ts";
import { chainTape, randomRealTape } from "../tape/real_tapes.ts";
import { LIBRARY } from "./rig.ts";
import { contentsOf, counterTape, longTape } from "./tapes.ts";

const MAGIC = 0x5343574c, WRITTEN = 1, COMPARED = 2;

interface Entry {
  readonly label: string;
  readonly tape: Uint8Array<ArrayBuffer>;
  readonly times: number;
  readonly step: number | null;
  readonly bindings: readonly {
    readonly before: Uint8Array<ArrayBuffer>;
    readonly written: boolean;
    readonly compared: boolean;
  }[];
}

/** A whole tape, each slot in memory of its own. */
function entryOf(name: string, tape: Tape, times = 1, limit = 1000): Entry {
  const planned = planTape(tape), fill = contentsOf(limit);
  const step = planned.slots.findIndex((s) => s.name === "step");
  return {
    label: `${name} times=${times} step=${step}`,
    tape: encodeTape(planned, "threadgroups"),
    times,
    step: step < 0 ? null : step,
    bindings: planned.slots.map((s) => {
      const written = s.kind !== "weight";
      return { before: fill(s), written, compared: written };
    }),
  };
}

function caseEntries(kernels: readonly string[]): Entry[] {
  const has = (op: Op) => kernels.some((k) => k.split("__")[0] === op.name);
  return OPS.filter(has).map((op) => {
    const sized = casesOf(op).map((c) => ({ c, bytes: recordCase(c, "threadgroups").arena.bytes }));
    const { c } = sized.reduce((a, b) => b.bytes < a.bytes ? b : a);
    const recorded = recordCase(c, "threadgroups");
    const contents = contentsOfCase(recorded, caseData(c));
    return {
      label: `${c.label} times=1 step=-1`,
      tape: recorded.tape,
      times: 1,
      step: null,
      bindings: recorded.arena.places.map((p, i) => ({
        before: contents[i],
        written: p.written,
        compared: p.written && !op.tensors[recorded.owners[i].key].unspecified,
      })),
    };
  });
}

function played(device: Device, e: Entry): Uint8Array<ArrayBuffer>[] {
  const memories = e.bindings.map(({ before }) => {
    const m = device.alloc(before.length);
    m.write(0, before);
    return m;
  });
  const bindings = memories.map((memory) => ({ memory, offset: 0, bytes: memory.bytes }));
  const tape = device.load(e.tape, bindings, e.step);
  tape.play(e.times);
  tape[Symbol.dispose]();
  return memories.map((m) => {
    const after = new Uint8Array(m.bytes);
    m.read(0, after);
    m[Symbol.dispose]();
    return after;
  });
}

using device = Device.open("emu", 0, 2, openLibrary(LIBRARY));
const entries = [
  ...caseEntries(device.kernels()),
  entryOf("chain", chainTape(), 3),
  entryOf("long", longTape(8)),
  ...[1, 4].map((limit) => entryOf("counter", counterTape(), 12, limit)),
  ...[1, 2, 3].map((seed) => entryOf(`random ${seed}`, randomRealTape(seeded(seed), 16), 2)),
];
const out = new Output(Deno.args[0]);
out.words(MAGIC, entries.length, 1);
out.text("metal");
for (const e of entries) {
  out.text(e.label);
  out.words(e.tape.length);
  out.bytes(e.tape);
  out.words(e.bindings.length);
  for (const b of e.bindings) {
    out.words(b.before.length, 0, (b.written ? WRITTEN : 0) | (b.compared ? COMPARED : 0));
    out.bytes(b.before);
  }
  const after = played(device, e);
  e.bindings.forEach((b, i) => b.written && out.bytes(after[i]));
}
out.close();
