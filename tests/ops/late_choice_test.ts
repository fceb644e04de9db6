/**
 * Products with chosen experts follow the choice that the record before has made in the same play, though a player may
 * have begun to load the weights of the choice that was there before.
 */
import assert from "node:assert/strict";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { moeDown } from "../../kernels/ops/moe_down/op.ts";
import { routerTopk } from "../../kernels/ops/router_topk/op.ts";
import { seeded } from "../random.ts";
import { Arena } from "./arena.ts";
import { levelsOf } from "./devices.ts";
import { opCase } from "./op_case.ts";
import { caseData } from "./record_case.ts";
import { shapeOf } from "./tensor_data.ts";

/** As many units as warps, fewer, and more: of a GPU's thread block. */
const SIZES = [
  { rows: 2, topK: 8, ffn: 512, experts: 24, dim: 130 },
  { rows: 2, topK: 5, ffn: 1088, experts: 24, dim: 130 },
  { rows: 1, topK: 6, ffn: 1600, experts: 24, dim: 130 },
];
const PLAYS = 6;

for (const sizes of SIZES) {
  Deno.test(`experts: what is chosen last is multiplied, ${sizes.topK} of ${sizes.ffn}`, () =>
    check(sizes));
}

function check(sizes: (typeof SIZES)[number]): void {
  const c = opCase(moeDown as never, { down: "q4g64_bf16" }, sizes)!, data = caseData(c);
  const random = seeded(7), count = sizes.rows * sizes.experts;
  const choices = Array.from(
    { length: PLAYS },
    () => Float32Array.from({ length: count }, () => random() * 8 - 4),
  );
  for (const level of levelsOf(moeDown as never)) {
    const tape = new Tape(), arena = new Arena(level.form);
    const { rows, topK, ffn, experts, dim } = sizes;
    const logits = tape.state("logits", "f32", [rows, experts]);
    const ids = tape.state("ids", "u32", [rows, topK]);
    const weights = tape.state("weights", "f32", [rows, topK]);
    const h = tape.state("h", "f32", [rows, topK, ffn]), y = tape.state("y", "f32", [rows, dim]);
    tape.emit(routerTopk, { logits, ids, weights }, { experts });
    const down = tape.weight("down", c.dtypes.down, shapeOf(c, "down"));
    tape.emit(moeDown, { h, ids, weights, down, y }, {});
    const contents = tape.slots.map((slot) => {
      const part = ["values", "scales", "biases"].indexOf(slot.part);
      arena.place(slot.name, slot.dtype, part, slot.bytes, slot.name === "down", slot.name === "y");
      const given = slot.name === "h" || slot.name === "down" ? data[slot.name].parts[part] : null;
      return given ?? new Uint8Array(slot.bytes);
    });
    const encoded = encodeTape(planTape(tape), level.form);
    const place = (name: string) => arena.places.find((p) => p.name === name)!;
    const memory = level.three.memory(arena.bytes);
    memory.write(0, arena.image(contents) as Uint8Array<ArrayBuffer>);
    const played = (loaded: { play(): number }, choice: Float32Array) => {
      memory.write(place("logits").begin, new Uint8Array(choice.slice().buffer));
      loaded.play();
      const out = new Uint8Array(place("y").bytes);
      memory.read(place("y").begin, out);
      return out;
    };
    const load = () => level.three.device.load(encoded, arena.bindings(memory), null);
    using loaded = load();
    for (const [i, choice] of choices.entries()) {
      const again = played(loaded, choice);
      // The first play of a tape starts a record when the one before it has ended.
      using fresh = load();
      assert.deepEqual(again, played(fresh, choice), `play ${i} on ${level.isa}`);
    }
  }
}
