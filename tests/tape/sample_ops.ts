/**
 * Small ops that no table lists, for tests of recording and planning alone, and seeded random tapes made of
 * them. Their references do not commute, so an order that breaks a dependency changes the result.
 */
import { type Constraint, defineOp, type Op, type Tensor } from "../../kernels/define.ts";
import { Tape } from "../../ffi/tape/tape.ts";

const shared = {
  params: {},
  constraints: [] as readonly Constraint[],
  tasks: (s: Readonly<Record<string, number>>) => s.n,
  simt: { none: "a test" },
  tolerance: {},
  cases: [],
  flops: (s: Readonly<Record<string, number>>) => 4 * s.n,
};

/** y = 0.5 a + 0.25 b */
export const mix = defineOp({
  ...shared,
  name: "mix",
  doc: "y[i] = a[i] / 2 + b[i] / 4",
  tensors: {
    a: { axes: ["n"], dtypes: ["f32"], role: "in" },
    b: { axes: ["n"], dtypes: ["f32"], role: "in" },
    y: { axes: ["n"], dtypes: ["f32"], role: "out" },
  },
  reference: ({ a, b, y }, _, { n }) => {
    for (let i = 0; i < n; i++) y[i] = a[i] / 2 + b[i] / 4;
  },
});

/** y = 0.75 y + a + 1 */
export const accumulate = defineOp({
  ...shared,
  name: "accumulate",
  doc: "y[i] = 0.75 y[i] + a[i] + 1",
  tensors: {
    a: { axes: ["n"], dtypes: ["f32"], role: "in" },
    y: { axes: ["n"], dtypes: ["f32"], role: "inout" },
  },
  reference: ({ a, y }, _, { n }) => {
    for (let i = 0; i < n; i++) y[i] = 0.75 * y[i] + a[i] + 1;
  },
});

/** Every kind of thing that a record can be refused for. */
export const strict = defineOp({
  ...shared,
  name: "strict",
  doc: "",
  tensors: {
    a: { axes: ["rows", "dim"], dtypes: ["f32", "f16"], role: "in" },
    b: { axes: ["rows", "dim"], dtypes: ["f32", "f16"], role: "in", sameAs: "a", optional: true },
    w: { axes: ["dim", "dim"], dtypes: ["f32", "q4g64_f16"], role: "in", weight: true },
    y: { axes: ["rows", "wide"], dtypes: ["f32"], role: "out" },
  },
  params: { column: "u32", scale: "f32" },
  specialise: { dim: [64, 128] },
  constraints: [
    { sum: ["column", "dim"], atMost: "wide" },
    { axis: "rows", max: 16 },
    { product: ["rows", 2], atLeast: "rows" },
    { axis: "dim", multipleOf: "group" },
  ],
  tasks: (s) => s.rows,
  simt: { none: "a test" },
  reference: () => {},
});

export function asOp(op: unknown): Op {
  return op as Op;
}

/** A random tape of mix and accumulate over scratch, states and views of both. */
export function randomTape(random: () => number, records: number): Tape {
  const tape = new Tape();
  const below = (n: number) => Math.floor(random() * n);
  const sizes = [8, 40, 100];
  const pool: Tensor[] = sizes.flatMap((n) => [
    tape.state(`kept${n}`, "f32", [n]),
    tape.state(`other${n}`, "f32", [n]),
  ]);
  const written = [...pool];
  const source = (n: number): Tensor => {
    const same = written.filter((t) => t.shape[0] === n);
    const wider = written.filter((t) => t.shape[0] > n);
    if (wider.length && random() < 0.3) {
      const t = wider[below(wider.length)];
      return tape.view(t, below(t.shape[0] - n + 1), [n]);
    }
    return same[below(same.length)];
  };
  for (let i = 0; i < records; i++) {
    const n = sizes[below(3)];
    const a = source(n), b = source(n);
    if (random() < 0.6) {
      const y = tape.scratch(`s${i}`, "f32", [n]);
      tape.emit(mix, { a, b, y }, {});
      written.push(y);
    } else {
      const y = source(n);
      if (overlaps(tape, a, y)) continue;
      tape.emit(accumulate, { a, y }, {});
    }
  }
  return tape;
}

function overlaps(tape: Tape, a: Tensor, b: Tensor): boolean {
  const x = tape.slots[a.slots[0]], y = tape.slots[b.slots[0]];
  return x.base === y.base && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}
