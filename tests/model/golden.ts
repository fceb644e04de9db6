/** Reading golden values (safetensors made by transformers) and comparing with them. */
import assert from "node:assert/strict";
import { readSafetensors } from "../../engine/checkpoint/safetensors.ts";

export interface GoldenTensor {
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array;
}

/** All tensors of a golden file; F32 and I32 only. */
export async function readGolden(path: string): Promise<Map<string, GoldenTensor>> {
  const header = await readSafetensors(path);
  const bytes = await Deno.readFile(path);
  const out = new Map<string, GoldenTensor>();
  for (const [name, t] of header.tensors) {
    const buffer = bytes.slice(t.offset, t.offset + t.bytes).buffer;
    out.set(name, {
      shape: t.shape,
      values: t.dtype === "F32" ? new Float32Array(buffer) : new Int32Array(buffer),
    });
  }
  return out;
}

export function floats(golden: Map<string, GoldenTensor>, name: string): Float32Array {
  const t = golden.get(name);
  assert(t && t.values instanceof Float32Array, `golden ${name}`);
  return t.values;
}

export function ids(golden: Map<string, GoldenTensor>, name: string): Uint32Array<ArrayBuffer> {
  const t = golden.get(name);
  assert(t && t.values instanceof Int32Array, `golden ${name}`);
  return Uint32Array.from(t.values);
}

/** Largest difference, and the squared error relative to the squared reference. */
export function distance(got: ArrayLike<number>, want: ArrayLike<number>) {
  assert.equal(got.length, want.length);
  let max = 0, error = 0, power = 0;
  for (let i = 0; i < want.length; i++) {
    const d = got[i] - want[i];
    assert(Number.isFinite(d), `value ${i} is ${got[i]}, want ${want[i]}`);
    max = Math.max(max, Math.abs(d));
    error += d * d;
    power += want[i] * want[i];
  }
  return { max, nmse: error / power };
}

/** Asserts both bounds and says where the values came from. */
export function assertClose(
  got: ArrayLike<number>,
  want: ArrayLike<number>,
  bound: { max: number; nmse: number },
  what: string,
): void {
  const d = distance(got, want);
  assert(
    d.max <= bound.max && d.nmse <= bound.nmse,
    `${what}: max ${d.max.toExponential(2)} (at most ${bound.max}), NMSE ${
      d.nmse.toExponential(2)
    } (at most ${bound.nmse})`,
  );
}

export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}
