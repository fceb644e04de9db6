/**
 * What gdn_step, gdn_chunk, gdn_verify and gdn_commit have in common: tensors, constraints, and the recurrence in f64 that is
 * the oracle of both. Owns no choice between them.
 */
import type { Constraint, Fill, Sizes, TensorSpecs } from "../define.ts";

export const GDN_TENSORS = {
  qk: { axes: ["rows", "two", "kHeads", "headDim"], dtypes: ["f32"], role: "in" },
  conv: { axes: ["rows", "channels"], dtypes: ["f32"], role: "in" },
  g: { axes: ["rows", "vHeads"], dtypes: ["f32"], role: "in" },
  beta: { axes: ["rows", "vHeads"], dtypes: ["f32"], role: "in" },
  gdnState: { axes: ["vHeads", "headDim", "headDim"], dtypes: ["f32"], role: "inout" },
  o: { axes: ["rows", "vHeads", "headDim"], dtypes: ["f32"], role: "out" },
} as const satisfies TensorSpecs;

/** headMap 0: the key head of value head h is h / (vHeads/kHeads); 1: it is h % kHeads. */
export const GDN_PARAMS = { headMap: "u32" } as const;

export function keyHeadOf(h: number, headMap: number, { kHeads, vHeads }: Sizes): number {
  return headMap === 1 ? h % kHeads : Math.floor(h / (vHeads / kHeads));
}

export const GDN_HEADS: readonly Constraint[] = [
  { axis: "headDim", multipleOf: 16 },
  { axis: "headDim", max: 256 },
  { axis: "headMap", max: 1 },
  { axis: "vHeads", multipleOf: "kHeads" },
];
export const GDN_CONSTRAINTS: readonly Constraint[] = [
  { axis: "two", oneOf: [2] },
  ...GDN_HEADS,
  { sum: [[2, "kHeads", "headDim"], ["vHeads", "headDim"]], atMost: "channels" },
];

/**
 * Row by row: S *= exp(g); d = beta * (v - S k); S += d k^T; o = S q, with S[v][k] per value head, k and
 * q the normalised rows of qk, v behind the 2 * kHeads * headDim columns of conv. d is kept where there is room for it.
 */
export function gdnRecurrence(
  t: Readonly<Record<keyof typeof GDN_TENSORS, Float64Array> & { d?: Float64Array }>,
  { headMap }: { readonly headMap: number },
  sizes: Sizes,
): void {
  const { rows, channels, kHeads, vHeads, headDim: n } = sizes;
  for (let r = 0; r < rows; r++) {
    for (let h = 0; h < vHeads; h++) {
      const kHead = keyHeadOf(h, headMap, sizes);
      const q = t.qk.subarray((r * 2 * kHeads + kHead) * n);
      const k = t.qk.subarray(((r * 2 + 1) * kHeads + kHead) * n);
      const decay = Math.exp(t.g[r * vHeads + h]);
      for (let i = 0; i < n; i++) {
        const row = t.gdnState.subarray((h * n + i) * n, (h * n + i + 1) * n);
        let predicted = 0;
        for (let j = 0; j < n; j++) predicted += (row[j] *= decay) * k[j];
        const v = t.conv[r * channels + 2 * kHeads * n + h * n + i];
        const d = t.beta[r * vHeads + h] * (v - predicted), out = (r * vHeads + h) * n + i;
        let read = 0;
        for (let j = 0; j < n; j++) read += (row[j] += d * k[j]) * q[j];
        t.o[out] = read;
        if (t.d) t.d[out] = d;
      }
    }
  }
}

/** Inputs as a layer makes them: q and k of unit length (q scaled), gates in (0, 1), decays below 0. */
export const GDN_FILL: Readonly<Record<string, Fill>> = {
  qk: (s, random) => {
    const out = Float64Array.from(
      { length: s.rows * 2 * s.kHeads * s.headDim },
      () => random() + random() - random() - random(),
    );
    for (let at = 0, head = 0; at < out.length; at += s.headDim, head++) {
      const x = out.subarray(at, at + s.headDim);
      const norm = Math.hypot(...x) || 1;
      const scale = Math.floor(head / s.kHeads) % 2 ? 1 : s.headDim ** -0.5;
      x.forEach((v, i) => x[i] = v / norm * scale);
    }
    return out;
  },
  g: (s, random) =>
    Float64Array.from({ length: s.rows * s.vHeads }, () => -Math.exp(6 * random() - 4)),
  beta: (s, random) =>
    Float64Array.from({ length: s.rows * s.vHeads }, () => 1 / (1 + Math.exp(4 * random() - 2))),
};

/** Only the value columns of conv are read. */
export const GDN_TOUCHED = {
  conv: (s: Sizes) => s.rows * s.vHeads * s.headDim,
};
