/**
 * Products of one row over so many weights that they are streamed through shared memory: the bits of the form that two
 * rows take, wherever the weights lie, with partial tiles and several weights side by side.
 */
import assert from "node:assert/strict";
import { Device } from "../../ffi/abi/handle.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { gemvAdd } from "../../kernels/ops/gemv_add/op.ts";
import { normGemv } from "../../kernels/ops/norm_gemv/op.ts";
import { numberToBf16, numberToF16 } from "../../kernels/formats/float.ts";
import { normal, seeded } from "../random.ts";

interface Product {
  readonly op: "gemv" | "norm_gemv" | "gemv_add";
  readonly inDim: number;
  readonly outs: readonly number[];
}

const PRODUCTS: readonly Product[] = [
  { op: "gemv_add", inDim: 17408, outs: [37] },
  { op: "gemv", inDim: 17408, outs: [5, 16, 33] },
  { op: "norm_gemv", inDim: 16384, outs: [24, 1] },
  { op: "gemv_add", inDim: 12288, outs: [2900] },
  { op: "norm_gemv", inDim: 4096, outs: [8460, 33] },
  // Scales of whole tiles in one copy.
  { op: "gemv", inDim: 3584, outs: [9800, 21] },
  { op: "gemv", inDim: 5120, outs: [6700, 77] },
  // So many tiles for an H200's blocks that the last ones are claimed.
  { op: "gemv", inDim: 3584, outs: [12700, 37] },
  { op: "norm_gemv", inDim: 5120, outs: [14800, 5] },
];

/** Bytes of every slot of a product of so many rows, and its y. `skew`: where weights lie beside multiples of 16. */
function play(
  device: Device,
  { op, inDim, outs }: Product,
  format: "q4g64_bf16" | "q4g64_f16",
  rows: number,
  skew: number,
): Uint8Array {
  const tape = new Tape(), out = outs.reduce((a, b) => a + b);
  const x = tape.state("x", "f32", [rows, inDim]), y = tape.state("y", "f32", [rows, out]);
  const [w0, ...others] = outs.map((n, i) => tape.weight(`w${i}`, format, [n, inDim]));
  const more = Object.fromEntries(others.map((w, i) => [`w${i + 1}`, w]));
  if (op === "gemv_add") tape.emit(gemvAdd, { x, w: w0, y }, {});
  else if (op === "gemv") tape.emit(gemv, { x, w0, ...more, y }, { yCol: 0 });
  else {
    const wNorm = tape.state("wNorm", "f32", [inDim]);
    tape.emit(normGemv, { x, w0, ...more, wNorm, y }, { yCol: 0, eps: 1e-6 });
  }
  const scale = format === "q4g64_f16" ? numberToF16 : numberToBf16;
  let end = 0;
  const places = tape.slots.map((slot) => {
    const isWeight = slot.name.startsWith("w") && slot.name !== "wNorm";
    const begin = Math.ceil(end / 256) * 256 + (isWeight ? skew : 0);
    end = begin + slot.bytes;
    return { slot, begin, isWeight };
  });
  const image = new Uint8Array(end + 16);
  for (const [i, { slot, begin, isWeight }] of places.entries()) {
    // The same numbers whatever the rows: those of a row come before the next one's. Others in every slot, biases included.
    const random = seeded(i + 1);
    if (!isWeight) {
      const values = Float32Array.from({ length: slot.bytes / 4 }, () => normal(random));
      image.set(new Uint8Array(values.buffer), begin);
    } else if (slot.part === "values") {
      for (let i = 0; i < slot.bytes; i++) image[begin + i] = random() * 256;
    } else {
      const values = Uint16Array.from(
        { length: slot.bytes / 2 },
        () => scale((random() - 0.5) / 8),
      );
      image.set(new Uint8Array(values.buffer), begin);
    }
  }
  using memory = device.alloc(image.length);
  memory.write(0, image);
  const bindings = places.map(({ slot, begin }) => ({ memory, offset: begin, bytes: slot.bytes }));
  using loaded = device.load(encodeTape(planTape(tape), "threadgroups"), bindings, null);
  loaded.play();
  const first = new Uint8Array(out * 4);
  memory.read(places.find(({ slot }) => slot.name === "y")!.begin, first);
  return first;
}

Deno.test({
  name: "cuda: streamed products have the bits of several rows (needs an NVIDIA device)",
  ignore: Device.count("cuda") === 0,
  fn() {
    using device = Device.open("cuda", 0);
    for (const product of PRODUCTS) {
      for (const format of ["q4g64_bf16", "q4g64_f16"] as const) {
        const two = play(device, product, format, 2, 0),
          what = `${product.op} ${format} ${product.inDim}`;
        for (const skew of [0, 8]) {
          assert.deepEqual(play(device, product, format, 1, skew), two, `${what} at ${skew}`);
        }
      }
    }
  },
});
