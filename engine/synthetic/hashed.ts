/** Random affine weights by the kernel that hashes them from seed and place. Allocates nothing. */
import type { Binding, Device } from "../../ffi/abi/handle.ts";
import { encodeTape, launchForm } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import type { AffineFormat } from "../../kernels/formats/affine.ts";
import { randomAffine } from "../../kernels/ops/random_affine/op.ts";

/** What a hashed weight is made from. */
export interface Hashed {
  readonly format: AffineFormat;
  readonly seedLo: number;
  readonly seedHi: number;
  readonly step: number;
}

/** Fills codes, scales and biases of a weight of this shape. */
export async function makeHashed(
  device: Device,
  { format, seedLo, seedHi, step }: Hashed,
  shape: readonly number[],
  parts: readonly Binding[],
): Promise<void> {
  const columns = shape[shape.length - 1];
  const rows = shape.reduce((a, b) => a * b, 1) / columns;
  const tape = new Tape();
  tape.emit(randomAffine, { w: tape.weight("w", format, [rows, columns]) }, {
    seedLo,
    seedHi,
    step,
  });
  using loaded = device.load(
    encodeTape(planTape(tape), launchForm(device.info.kind)),
    parts,
    null,
  );
  await loaded.playAsync(1);
}
