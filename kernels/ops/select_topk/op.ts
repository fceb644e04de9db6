import { defineOp, type Sizes } from "../../define.ts";

/** The id of a place that no value takes. */
const NO_ID = 0xffffffff;

/** Values of one row that part p looks at: [first, last). */
function partOf(p: number, { vocab, parts }: Sizes): [number, number] {
  const piece = Math.ceil(vocab / parts);
  return [Math.min(p * piece, vocab), Math.min((p + 1) * piece, vocab)];
}

export const selectTopk = defineOp({
  name: "select_topk",
  doc:
    "ids[r,p,:], values[r,p,:] = the topK greatest of part p of logits[r], value descending, then position ascending; " +
    "parts are equal consecutive pieces; the id of logits[r,i] is from[r,i] where given, else i; NaN counts as -inf, " +
    "and where nothing above -inf is left the id is 0xffffffff and the value -inf",
  // Over long rows two records make the selection: one in parts, whose [rows, parts * topK] values and ids are the
  // logits and `from` of another one with a single part.
  tensors: {
    logits: { axes: ["rows", "vocab"], dtypes: ["f32"], role: "in" },
    from: { axes: ["rows", "given"], dtypes: ["u32"], role: "in", optional: true },
    ids: { axes: ["rows", "parts", "topK"], dtypes: ["u32"], role: "out" },
    values: { axes: ["rows", "parts", "topK"], dtypes: ["f32"], role: "out" },
  },
  params: {},
  constraints: [{ axis: "topK", max: 16 }],
  tasks: (s) => s.rows * s.parts,
  simt: { threads: 256, groups: (s) => [s.parts, s.rows, 1] },
  reference: ({ logits, from, ids, values }, _, s) => {
    const { rows, vocab, given, parts, topK } = s;
    for (let r = 0; r < rows; r++) {
      const x = logits.subarray(r * vocab, (r + 1) * vocab);
      for (let p = 0; p < parts; p++) {
        const [first, last] = partOf(p, s), open: number[] = [];
        for (let i = first; i < last; i++) if (x[i] > -Infinity) open.push(i);
        open.sort((a, b) => x[a] > x[b] ? -1 : x[b] > x[a] ? 1 : a - b);
        for (let k = 0; k < topK; k++) {
          const at = (r * parts + p) * topK + k, i = open[k];
          const id = i < given ? from[r * given + i] : i;
          ids[at] = i === undefined ? NO_ID : id;
          values[at] = i === undefined ? -Infinity : x[i];
        }
      }
    }
  },
  tolerance: { f32: { rel: 0, ofRms: 0 } },
  cases: [
    { rows: 1, vocab: 1, given: 0, parts: 1, topK: 1, odd: 0 },
    { rows: 3, vocab: 37, given: 0, parts: 1, topK: 5, odd: 0 },
    { rows: 2, vocab: 11, given: 0, parts: 1, topK: 16, odd: 0 },
    { rows: 2, vocab: 600, given: 0, parts: 7, topK: 16, odd: 0 },
    { rows: 2, vocab: 5, given: 0, parts: 8, topK: 3, odd: 0 },
    { rows: 16, vocab: 4099, given: 0, parts: 1, topK: 8, odd: 0 },
    { rows: 4, vocab: 1100, given: 0, parts: 2, topK: 16, odd: 1 },
    { rows: 2, vocab: 700, given: 0, parts: 1, topK: 16, odd: 2 },
    { rows: 3, vocab: 512, given: 512, parts: 1, topK: 16, odd: 0 },
    { rows: 3, vocab: 130, given: 40, parts: 1, topK: 9, odd: 0 },
    { rows: 2, vocab: 9000, given: 0, parts: 1, topK: 16, odd: 3 },
    { rows: 1, vocab: 248320, given: 0, parts: 1, topK: 16, odd: 0 },
    { rows: 2, vocab: 248320, given: 0, parts: 64, topK: 16, odd: 0 },
  ],
  fill: {
    // Few distinct values, so that ties are common, with infinities and NaN here and there. odd 1: few numbers among
    // NaN and -inf; 2: all equal; 3: ascending.
    logits: (s, random) =>
      Float64Array.from({ length: s.rows * s.vocab }, (_, i) => {
        const x = random(), odd = random();
        if (s.odd === 1) return odd < 0.01 ? x : odd < 0.5 ? NaN : -Infinity;
        if (s.odd === 2) return 0.25;
        if (s.odd === 3) return i % s.vocab;
        if (odd < 0.004) return odd < 0.001 ? Infinity : odd < 0.002 ? NaN : -Infinity;
        return (x - 0.5) * x * (i % 3 ? 64 : Math.round(8 * odd));
      }),
    from: (s, random) =>
      Uint32Array.from({ length: s.rows * s.given }, () => random() * 0xffffffff),
  },
  flops: (s) => s.rows * s.vocab,
  touched: { from: (s) => Math.min(s.rows * s.given, s.rows * s.parts * s.topK) },
});
