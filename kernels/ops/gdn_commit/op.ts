import { defineOp, type Fill, type TensorSpecs } from "../../define.ts";
import { GDN_CONSTRAINTS, GDN_FILL, GDN_PARAMS, keyHeadOf } from "../../shared/gdn.ts";
import { fillCommitted, layerOf } from "../../shared/rounds.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

const ROWS = {
  proj: { axes: ["layers", "rows", "projStride"], dtypes: ["f32"], role: "in" },
  qk: { axes: ["layers", "rows", "two", "kHeads", "headDim"], dtypes: ["f32"], role: "in" },
  g: { axes: ["layers", "rows", "vHeads"], dtypes: ["f32"], role: "in" },
  d: { axes: ["layers", "rows", "vHeads", "headDim"], dtypes: ["f32"], role: "in" },
} as const satisfies TensorSpecs;
const STATES = {
  convState: { axes: ["layers", "past", "channels"], dtypes: ["f32"], role: "inout" },
  gdnState: { axes: ["layers", "vHeads", "headDim", "headDim"], dtypes: ["f32"], role: "inout" },
} as const satisfies TensorSpecs;

const allLayers = (fill: Fill): Fill => (s, random) =>
  fill({ ...s, rows: s.layers * s.rows }, random);

export const gdnCommit = defineOp({
  name: "gdn_commit",
  doc:
    "convState[l] and gdnState[l] as conv_silu and gdn_step leave them after the first min(step.committed, rows) rows of layer l, bit by bit: the accepted rows of a round, with d of gdn_verify, S = exp(g) S + d k^T",
  tensors: { ...ROWS, step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" }, ...STATES },
  params: GDN_PARAMS,
  constraints: [
    ...GDN_CONSTRAINTS,
    { axis: "past", oneOf: [3] },
    { sum: ["channels"], atMost: "projStride" },
    { axis: "rows", max: 16 },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => s.layers * s.vHeads * (s.headDim / 16),
  simt: { threads: 128, groups: (s) => [s.headDim / 16, s.vHeads, s.layers] },
  reference: (t, { headMap }, s) => {
    const { layers, rows, projStride, channels, past, kHeads, vHeads, headDim } = s;
    const n = Math.min(t.step[STEP.committed], rows);
    for (let l = 0; l < layers; l++) {
      const of = (all: Float64Array) => layerOf(all, l, layers);
      const [qk, g, d, gdnState] = [t.qk, t.g, t.d, t.gdnState].map(of);
      for (let r = 0; r < n; r++) {
        for (let h = 0; h < vHeads; h++) {
          const kHead = keyHeadOf(h, headMap, s);
          const k = qk.subarray(((r * 2 + 1) * kHeads + kHead) * headDim);
          const decay = Math.exp(g[r * vHeads + h]);
          for (let i = 0; i < headDim; i++) {
            const row = gdnState.subarray((h * headDim + i) * headDim);
            const di = d[(r * vHeads + h) * headDim + i];
            for (let j = 0; j < headDim; j++) row[j] = decay * row[j] + di * k[j];
          }
        }
      }
      const [proj, convState] = [t.proj, t.convState].map(of);
      for (let i = 0; i < past; i++) {
        for (let c = 0; c < channels; c++) {
          const at = n + i;
          convState[i * channels + c] = at < past
            ? convState[at * channels + c]
            : proj[(at - past) * projStride + c];
        }
      }
    }
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  // layers, rows, kHeads, headDim, channels, vHeads, headMap, projStride, committed
  cases: [
    [1, 1, 1, 16, 48, 1, 0, 48, 1],
    [3, 3, 2, 48, 401, 4, 1, 612, 2],
    [2, 2, 2, 256, 2560, 6, 0, 2600, 0],
    [1, 4, 16, 128, 8192, 32, 0, 12352, 3],
    [2, 16, 2, 128, 1024, 4, 1, 1544, 11],
    [3, 5, 2, 32, 200, 2, 0, 271, 9],
  ].map(([layers, rows, kHeads, headDim, channels, vHeads, headMap, projStride, committed]) => ({
    layers,
    rows,
    two: 2,
    kHeads,
    headDim,
    channels,
    vHeads,
    headMap,
    projStride,
    past: 3,
    committed,
    stepWords: STEP_WORDS,
  })),
  fill: {
    qk: allLayers(GDN_FILL.qk),
    g: allLayers(GDN_FILL.g),
    step: fillCommitted,
  },
  flops: (s) => 3 * s.layers * s.rows * s.vHeads * s.headDim ** 2,
  touched: {
    proj: (s) => s.layers * s.past * s.channels,
    qk: (s) => s.layers * s.rows * s.kHeads * s.headDim,
    step: () => 1,
  },
});
