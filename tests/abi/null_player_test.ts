/** The null player: it checks a tape as every player does, counts plays, and computes nothing. */
import assert from "node:assert/strict";
import { Device, NativeError } from "../../ffi/abi/handle.ts";
import * as layout from "../../ffi/abi/layout.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { type PlannedTape, planTape } from "../../ffi/tape/plan.ts";
import { chainTape } from "../tape/real_tapes.ts";

const device = Device.open("null");
const cpu = Device.open("cpu", 0, 1);

function unbound(p: PlannedTape) {
  return p.slots.map(() => null);
}

/** As bindings that name no memory but say how large the slots are. */
function load(bytes: Uint8Array<ArrayBuffer>, p: PlannedTape, on = device) {
  using memory = on.alloc(1 << 20);
  let offset = 0;
  const bindings = p.slots.map((s) => {
    const at = offset;
    offset += Math.ceil(s.bytes / 64) * 64;
    return { memory, offset: at, bytes: s.bytes };
  });
  return on.load(bytes, bindings, null);
}

const planned = planTape(chainTape()), good = encodeTape(planned);

Deno.test("null player: counts plays and gives no times", () => {
  using tape = load(good, planned);
  assert.equal(tape.play(7), 7);
  assert.equal(tape.play(0), 0);
  assert.deepEqual([...tape.profile(planned.records.length)], [0n, 0n, 0n, 0n, 0n]);
});

Deno.test("null player: has every kernel", () => {
  assert.equal(device.kernels().filter((name) => !name).length, 0);
});

Deno.test("null player: slots without any size are refused", () => {
  assert.throws(() => device.load(good, unbound(planned), null), /needs \d+ bytes of slot/);
});

/** One word of a record, by its place in layout.ts. */
function changed(record: number, word: number, value: number): Uint8Array<ArrayBuffer> {
  const bytes = good.slice();
  const at = layout.TAPE_HEAD_BYTES + record * layout.RECORD_BYTES + 4 * word;
  new DataView(bytes.buffer).setUint32(at, value, true);
  return bytes;
}

function header(word: number, value: number): Uint8Array<ArrayBuffer> {
  const bytes = good.slice();
  new DataView(bytes.buffer).setUint32(4 * word, value, true);
  return bytes;
}

const SLOTS = layout.RECORD_HEAD_WORDS, WORDS = SLOTS + layout.SLOTS_MAX;

const BROKEN: [string, Uint8Array<ArrayBuffer>, RegExp, number | null][] = [
  ["no bytes", new Uint8Array(0), /0 bytes are no tape/, null],
  ["a foreign magic", header(0, 1), /not a tape of version/, null],
  ["another version", header(1, 2), /not a tape of version/, null],
  ["no records", header(2, 0), /0 records/, null],
  ["more records than bytes", header(2, 6), /bytes for 6 records/, null],
  ["another number of slots", header(3, 99), /99 slots, 11 bindings/, null],
  ["cut off", good.slice(0, -1), /bytes for 5 records/, null],
  ["one byte too many", new Uint8Array([...good, 0]), /bytes for 5 records/, null],
  ["an unknown kernel", changed(3, 0, 1 << 20), /has kernel 1048576 of/, 3],
  ["unknown flags", changed(1, 1, 2), /unknown flags 0x2/, 1],
  ["an empty grid", changed(0, 2, 0), /has grid 0x1x1/, 0],
  ["a huge grid", changed(0, 3, 1 << 31), /has grid/, 0],
  ["no threads", changed(0, 5, 0), /has 0 threads/, 0],
  ["too many threads", changed(0, 5, 1025), /has 1025 threads/, 0],
  ["a spare word in use", changed(0, 6, 1), /spare/, 0],
  ["a slot beyond the table", changed(2, SLOTS, 11), /uses slot 11 of 11/, 2],
  ["no slot where one must be", changed(2, SLOTS, layout.NO_SLOT), /uses slot/, 2],
  ["a slot that the op does not have", changed(2, SLOTS + 2, 0), /slot beyond its 2/, 2],
  ["scales of a dense weight", changed(3, SLOTS + 2, 0), /dense weight's scales/, 3],
  ["a size of zero", changed(0, WORDS, 0), /has size 0 in word 0/, 0],
  ["a size beyond the slot", changed(0, WORDS, 4), /needs 1024 bytes of slot/, 0],
  ["a size beyond all limits", changed(0, WORDS, 0xffffffff), /has size/, 0],
  ["a word that the op does not have", changed(0, WORDS + 15, 1), /has size 1 in word 15/, 0],
  ["a broken constraint", changed(1, WORDS + 7, 1), /breaks constraint/, 1],
  ["a missing wait", changed(1, 1, 0), /shares slot 2 with an earlier record/, 1],
  ["an output over an input", changed(0, SLOTS + 2, 0), /writes slot 0, which overlaps slot 0/, 0],
];

for (const [what, bytes, says, record] of BROKEN) {
  Deno.test(`null and cpu player: refuse a tape with ${what}`, () => {
    for (const on of [device, cpu]) {
      assert.throws(() => load(bytes, planned, on), (e: Error) => {
        assert.ok(e instanceof NativeError && e.refused);
        assert.match(e.message, says);
        assert.equal(e.record, record);
        return true;
      });
    }
  });
}
