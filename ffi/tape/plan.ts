/**
 * Lays out a recorded tape: where each scratch tensor lies in the arena, and which records must wait for
 * earlier ones. Offsets come first, because scratch tensors that share memory also have to wait.
 */
import type { Slot, Tape, TapeRecord } from "./tape.ts";

/** A tape ready to be encoded: record i waits when `waits[i]`; scratch slot s lies at `offsets[s]`. */
export interface PlannedTape {
  readonly records: readonly TapeRecord[];
  readonly slots: readonly Slot[];
  readonly waits: readonly boolean[];
  /** Byte offset of each scratch slot in the arena; 0 for the others. */
  readonly offsets: readonly number[];
  readonly scratchBytes: number;
}

/** Alignment of scratch tensors: a cache line, and what GPU buffers ask for. */
const ALIGN = 256;

export function planTape(tape: Tape): PlannedTape {
  const { offsets, scratchBytes } = placeScratch(tape);
  return {
    records: tape.records,
    slots: tape.slots,
    waits: findWaits(tape, offsets),
    offsets,
    scratchBytes,
  };
}

function slotsOf(r: TapeRecord): { slot: number; writes: boolean; reads: boolean }[] {
  return Object.entries(r.tensors).flatMap(([key, t]) => {
    const role = r.op.tensors[key].role;
    return t.slots.map((slot) => ({ slot, writes: role !== "in", reads: role !== "out" }));
  });
}

/** First fit by decreasing size over the lifetimes (first to last record that touches a tensor). */
function placeScratch(tape: Tape): { offsets: number[]; scratchBytes: number } {
  const life = new Map<number, { first: number; last: number }>();
  tape.records.forEach((r, i) => {
    for (const { slot } of slotsOf(r)) {
      const base = tape.slots[slot].base;
      if (tape.slots[base].kind !== "scratch") continue;
      const known = life.get(base);
      if (known) known.last = i;
      else life.set(base, { first: i, last: i });
    }
  });
  const offsets = tape.slots.map(() => 0);
  const placed: { begin: number; end: number; first: number; last: number }[] = [];
  let scratchBytes = 0;
  const order = [...life.keys()].sort((a, b) => tape.slots[b].bytes - tape.slots[a].bytes || a - b);
  for (const base of order) {
    const { first, last } = life.get(base)!;
    const bytes = Math.ceil(tape.slots[base].bytes / ALIGN) * ALIGN;
    const rivals = placed.filter((p) => p.first <= last && first <= p.last)
      .sort((a, b) => a.begin - b.begin);
    let at = 0;
    for (const p of rivals) {
      if (at + bytes <= p.begin) break;
      at = Math.max(at, p.end);
    }
    offsets[base] = at;
    placed.push({ begin: at, end: at + bytes, first, last });
    scratchBytes = Math.max(scratchBytes, at + bytes);
  }
  tape.slots.forEach((s, i) => {
    if (s.kind === "scratch") offsets[i] = offsets[s.base] + s.offset;
  });
  return { offsets, scratchBytes };
}

interface Range {
  readonly space: string;
  readonly begin: number;
  readonly end: number;
}

/** Two records may overlap in time unless one writes what the other touches. */
function findWaits(tape: Tape, offsets: readonly number[]): boolean[] {
  const rangeOf = (slot: number): Range => {
    const s = tape.slots[slot];
    const begin = s.kind === "scratch" ? offsets[slot] : s.offset;
    const space = s.kind === "scratch" ? "scratch" : `${s.base}`;
    return { space, begin, end: begin + s.bytes };
  };
  const meets = (a: Range, many: readonly Range[]) =>
    many.some((b) => a.space === b.space && a.begin < b.end && b.begin < a.end);
  let read: Range[] = [], written: Range[] = [];
  return tape.records.map((r) => {
    const touched = slotsOf(r).map((t) => ({ ...t, range: rangeOf(t.slot) }));
    const wait = touched.some((t) => meets(t.range, written) || (t.writes && meets(t.range, read)));
    if (wait) read = [], written = [];
    for (const t of touched) {
      if (t.reads) read.push(t.range);
      if (t.writes) written.push(t.range);
    }
    return wait;
  });
}
