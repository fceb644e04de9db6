/**
 * A product and the silu of what it makes in one launch of a graph: the bits that they have record by record, as the first
 * play of a tape does, in everything that they write.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { Device } from "../../ffi/abi/handle.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { gemvAdd } from "../../kernels/ops/gemv_add/op.ts";
import { normGemv } from "../../kernels/ops/norm_gemv/op.ts";
import { swiglu } from "../../kernels/ops/swiglu/op.ts";
import { numberToBf16, numberToF16 } from "../../kernels/formats/float.ts";
import { normal, seeded } from "../random.ts";

interface Layer {
  readonly hidden: number;
  readonly ffn: number;
  readonly normed: boolean;
  /** Whether the two records are one launch: whole tiles of weights that are streamed. */
  readonly joined: boolean;
}

const LAYERS: readonly Layer[] = [
  { hidden: 4096, ffn: 12288, normed: true, joined: true },
  { hidden: 4096, ffn: 4240, normed: true, joined: true },
  { hidden: 3584, ffn: 9488, normed: true, joined: true },
  { hidden: 5120, ffn: 3408, normed: false, joined: true },
  { hidden: 14336, ffn: 4224, normed: true, joined: true },
  // Pairs of tiles for half of an H200's blocks, and for three quarters.
  { hidden: 16384, ffn: 1056, normed: true, joined: true },
  { hidden: 16384, ffn: 1600, normed: true, joined: true },
  { hidden: 4096, ffn: 5000, normed: true, joined: false },
  { hidden: 512, ffn: 512, normed: true, joined: false },
];

const FORMATS = { q4g64_bf16: numberToBf16, q4g64_f16: numberToF16 };

function tapeOf({ hidden, ffn, normed }: Layer, format: keyof typeof FORMATS): Tape {
  const tape = new Tape();
  const [x, y, gu, act] = [["x", hidden], ["y", hidden], ["gu", 2 * ffn], ["act", ffn]].map((
    [name, n],
  ) => tape.state(`${name}`, "f32", [1, Number(n)]));
  const weight = (name: string, out: number, inDim: number) =>
    tape.weight(name, format, [out, inDim]);
  const wNorm = tape.state("norm", "f32", [hidden]);
  const gateUp = { w0: weight("w_gate", ffn, hidden), w1: weight("w_up", ffn, hidden) };
  if (normed) tape.emit(normGemv, { x, ...gateUp, wNorm, y: gu }, { yCol: 0, eps: 1e-6 });
  else tape.emit(gemv, { x, ...gateUp, y: gu }, { yCol: 0 });
  tape.emit(swiglu, { gu, h: act }, {});
  if (ffn % 64 === 0) tape.emit(gemvAdd, { x: act, w: weight("w_down", hidden, ffn), y }, {});
  return tape;
}

const same = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0;

/** Random contents of all slots, outputs poisoned, and where each begins. */
function imageOf(tape: Tape, scale: (n: number) => number) {
  let end = 0;
  const places = tape.slots.map((slot) => {
    const begin = Math.ceil(end / 256) * 256;
    end = begin + slot.bytes;
    return { slot, begin };
  });
  const image = new Uint8Array(end + 256).fill(0xff);
  for (const [i, { slot, begin }] of places.entries()) {
    const random = seeded(i + 1), n = slot.bytes;
    if (["gu", "act"].includes(slot.name)) continue;
    if (!slot.name.startsWith("w_")) {
      image.set(
        new Uint8Array(Float32Array.from({ length: n / 4 }, () => normal(random)).buffer),
        begin,
      );
    } else if (slot.part === "values") {
      const words = new Uint32Array(image.buffer, begin, n / 4);
      let word = i + 1;
      for (let k = 0; k < words.length; k++) {
        word = Math.imul(word, 1664525) + 1013904223;
        words[k] = word ^ (word >>> 15);
      }
    } else {
      const values = Uint16Array.from({ length: n / 2 }, () => scale((random() - 0.5) / 8));
      image.set(new Uint8Array(values.buffer), begin);
    }
  }
  return { image, places };
}

Deno.test({
  name:
    "cuda: joined records have the bits of each alone, play after play (needs an NVIDIA device)",
  ignore: Device.count("cuda") === 0,
  fn() {
    using device = Device.open("cuda", 0);
    for (const layer of LAYERS) {
      for (const [format, scale] of Object.entries(FORMATS)) {
        const tape = tapeOf(layer, format as keyof typeof FORMATS);
        const { image, places } = imageOf(tape, scale);
        using memory = device.alloc(image.length);
        const bindings = places.map(({ slot, begin }) => ({
          memory,
          offset: begin,
          bytes: slot.bytes,
        }));
        using loaded = device.load(encodeTape(planTape(tape), "threadgroups"), bindings, null);
        const played = (times: number) => {
          memory.write(0, image);
          loaded.play(times);
          const after = new Uint8Array(image.length);
          memory.read(0, after);
          return after;
        };
        const text = `${JSON.stringify(layer)} ${format}`;
        const records = played(1);
        assert.ok(!same(records, image), text);
        for (let i = 0; i < 3; i++) assert.ok(same(played(1), records), `${text}, play ${i}`);
        const thrice = played(3);
        assert.ok(same(played(3), thrice), text);
        const ns = loaded.profile(tape.records.length);
        assert.ok(ns[0] > 0n, text);
        assert.equal(ns[1] === 0n, layer.joined, text);
      }
    }
  },
});
