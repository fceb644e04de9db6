import { defineOp } from "../../define.ts";
import {
  GDN_CONSTRAINTS,
  GDN_FILL,
  GDN_PARAMS,
  GDN_TENSORS,
  GDN_TOUCHED,
  gdnRecurrence,
} from "../../shared/gdn.ts";
import { fillCommitted } from "../../shared/rounds.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

const { o: _, ...INPUTS } = GDN_TENSORS;

export const gdnCommit = defineOp({
  name: "gdn_commit",
  doc:
    "gdnState as gdn_step leaves it after the first min(step.committed, rows) rows, bit by bit: the accepted rows of a round",
  tensors: {
    qk: INPUTS.qk,
    conv: INPUTS.conv,
    g: INPUTS.g,
    beta: INPUTS.beta,
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    gdnState: INPUTS.gdnState,
  },
  params: GDN_PARAMS,
  constraints: [
    ...GDN_CONSTRAINTS,
    { axis: "rows", max: 16 },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => s.vHeads * (s.headDim / 16),
  simt: { threads: 128, groups: (s) => [s.headDim / 16, s.vHeads, 1] },
  reference: (t, p, s) => {
    const rows = Math.min(t.step[STEP.committed], s.rows);
    const o = new Float64Array(s.rows * s.vHeads * s.headDim);
    gdnRecurrence({ ...t, o }, p, { ...s, rows });
  },
  tolerance: { f32: { rel: 2e-6, ofRms: 3e-6 } },
  cases: [
    { rows: 1, two: 2, kHeads: 1, headDim: 16, channels: 48, vHeads: 1, headMap: 0, committed: 1 },
    { rows: 3, two: 2, kHeads: 2, headDim: 48, channels: 400, vHeads: 4, headMap: 1, committed: 2 },
    {
      rows: 2,
      two: 2,
      kHeads: 2,
      headDim: 256,
      channels: 2560,
      vHeads: 6,
      headMap: 0,
      committed: 0,
    },
    {
      rows: 4,
      two: 2,
      kHeads: 16,
      headDim: 128,
      channels: 8192,
      vHeads: 32,
      headMap: 0,
      committed: 3,
    },
    {
      rows: 16,
      two: 2,
      kHeads: 2,
      headDim: 128,
      channels: 1024,
      vHeads: 4,
      headMap: 1,
      committed: 11,
    },
    { rows: 5, two: 2, kHeads: 2, headDim: 32, channels: 200, vHeads: 2, headMap: 0, committed: 9 },
  ].map((s) => ({ ...s, stepWords: STEP_WORDS })),
  fill: {
    ...GDN_FILL,
    step: fillCommitted,
  },
  flops: (s) => 7 * s.rows * s.vHeads * s.headDim ** 2,
  touched: { ...GDN_TOUCHED, step: () => 1 },
});
