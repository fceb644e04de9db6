/** A tape of states alone, played once over given contents. */
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import type { Tape } from "../../ffi/tape/tape.ts";
import { Arena } from "./arena.ts";
import type { Level } from "./devices.ts";

/** Plays a tape of states over the given contents; gives the bytes of each state by its name. */
export function playStates(
  level: Level,
  tape: Tape,
  given: Readonly<Record<string, ArrayBufferView>>,
) {
  const arena = new Arena(level.form);
  const bytesOf = (v: ArrayBufferView) =>
    new Uint8Array(v.buffer as ArrayBuffer, v.byteOffset, v.byteLength);
  const own = tape.slots.filter((slot, at) => slot.base === at);
  const contents = own.map((slot) => {
    arena.place(slot.name, slot.dtype, 0, slot.bytes, false, true);
    return given[slot.name] ? bytesOf(given[slot.name]) : new Uint8Array(slot.bytes).fill(0x7f);
  });
  // A view has no place of its own: it is bound within that of its tensor.
  const places = arena.bindings(level.three.memory(arena.bytes));
  const bindings = tape.slots.map((slot, at) => {
    const place = places[own.indexOf(tape.slots[slot.base])];
    return slot.base === at
      ? place
      : { ...place, offset: place.offset + slot.offset, bytes: slot.bytes };
  });
  const memory = level.three.memory(arena.bytes);
  memory.write(0, arena.image(contents) as Uint8Array<ArrayBuffer>);
  using loaded = level.three.device.load(encodeTape(planTape(tape), level.form), bindings, null);
  loaded.play();
  const after = new Uint8Array(arena.bytes);
  memory.read(0, after);
  return Object.fromEntries(
    arena.places.map((p) => [p.name, after.slice(p.begin, p.begin + p.bytes)]),
  );
}
