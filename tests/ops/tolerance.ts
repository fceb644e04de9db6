/** Compares what a kernel wrote with the reference, element by element, and words what differs. */
import { ELEMENT_BYTES } from "../../ffi/tape/tape.ts";
import type { DType, Format, RefArray } from "../../kernels/define.ts";
import { isAffine } from "../../kernels/formats/affine.ts";
import type { OpCase } from "./op_case.ts";
import { decodeParts, type Parts, shapeOf, type TensorData } from "./tensor_data.ts";

/** Bytes of one element where elements can be told apart by bytes; 0 where they cannot. */
const SHOWN_MAX = 4;

interface Allowed {
  readonly rel: number;
  readonly ofRms: number;
}

function allowed(c: OpCase, dtype: DType | Format): Allowed {
  const exact = { rel: 0, ofRms: 0 };
  if (dtype === "u32") return exact;
  // An affine output is compared by the values that its codes stand for.
  return c.op.tolerance[isAffine(dtype) ? "f32" : dtype as DType] ?? exact;
}

/** Root mean square of what the reference wrote. */
function rmsOf(values: RefArray): number {
  let sum = 0, n = 0;
  for (const v of values) {
    if (!Number.isFinite(v)) continue;
    sum += v * v;
    n++;
  }
  return n ? Math.sqrt(sum / n) : 0;
}

function position(index: number, shape: readonly number[]): string {
  const at: number[] = [];
  for (let rest = index, i = shape.length - 1; i >= 0; i--) {
    at.unshift(rest % shape[i]);
    rest = Math.floor(rest / shape[i]);
  }
  return at.join(",");
}

function sameBytes(a: Parts, b: Parts, begin: number, end: number): boolean {
  for (let i = begin; i < end; i++) if (a[0][i] !== b[0][i]) return false;
  return true;
}

/** Lines that say where tensor `key` differs from the reference; empty when it is right. */
export function differences(
  c: OpCase,
  key: string,
  before: TensorData,
  after: Parts,
  want: RefArray,
): string[] {
  const dtype = c.dtypes[key], shape = shapeOf(c, key);
  const got = decodeParts(dtype, shape, after);
  const { rel, ofRms } = allowed(c, dtype);
  const floor = ofRms * rmsOf(want);
  const size = ELEMENT_BYTES[dtype] ?? 0;
  const untouched = c.op.tensors[key].role === "out" && dtype !== "u32";
  const lines: string[] = [];
  let wrong = 0;
  for (let i = 0; i < want.length; i++) {
    let limit = rel * Math.abs(want[i]) + floor, right: boolean;
    if (untouched && Number.isNaN(want[i])) {
      right = size === 0 || sameBytes(before.parts, after, i * size, (i + 1) * size);
      limit = 0;
    } else {
      right = Object.is(got[i], want[i]) || got[i] === want[i] ||
        Math.abs(got[i] - want[i]) <= limit;
    }
    if (right) continue;
    if (wrong++ < SHOWN_MAX) {
      const expected = untouched && Number.isNaN(want[i]) ? "nothing written" : want[i];
      lines.push(`${key}[${position(i, shape)}] got ${got[i]} want ${expected} (+- ${limit})`);
    }
  }
  if (wrong) lines.push(`${key}: ${wrong} of ${want.length} elements are wrong`);
  return lines;
}
