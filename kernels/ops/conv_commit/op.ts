import { defineOp } from "../../define.ts";
import { CONV_TENSORS } from "../../shared/conv.ts";
import { fillCommitted } from "../../shared/rounds.ts";
import { STEP, STEP_WORDS } from "../../step.ts";

export const convCommit = defineOp({
  name: "conv_commit",
  doc:
    "convState[i,c] = u[n+i,c], u = convState ++ proj[:, 0:channels], n = min(step.committed, rows): the accepted rows of a round",
  tensors: {
    proj: CONV_TENSORS.proj,
    step: { axes: ["stepWords"], dtypes: ["u32"], role: "in" },
    convState: CONV_TENSORS.convState,
  },
  params: {},
  constraints: [
    { axis: "past", oneOf: [3] },
    { sum: ["channels"], atMost: "projStride" },
    { axis: "rows", max: 16 },
    { axis: "stepWords", min: STEP_WORDS },
  ],
  tasks: (s) => Math.ceil(s.channels / 256),
  simt: { threads: 256, groups: (s) => [Math.ceil(s.channels / 256), 1, 1] },
  reference: ({ proj, step, convState }, _, { rows, projStride, channels, past }) => {
    const n = Math.min(step[STEP.committed], rows);
    for (let c = 0; c < channels; c++) {
      for (let i = 0; i < past; i++) {
        const at = n + i;
        convState[i * channels + c] = at < past
          ? convState[at * channels + c]
          : proj[(at - past) * projStride + c];
      }
    }
  },
  tolerance: { f32: { rel: 0, ofRms: 0 } },
  cases: [
    { rows: 1, projStride: 1, channels: 1, past: 3, committed: 1 },
    { rows: 2, projStride: 40, channels: 37, past: 3, committed: 0 },
    { rows: 4, projStride: 700, channels: 516, past: 3, committed: 2 },
    { rows: 5, projStride: 300, channels: 257, past: 3, committed: 9 },
    { rows: 16, projStride: 12352, channels: 8192, past: 3, committed: 13 },
  ].map((s) => ({ ...s, stepWords: STEP_WORDS })),
  fill: {
    step: fillCommitted,
  },
  flops: () => 0,
  touched: { proj: (s) => s.past * s.channels, step: () => 1 },
});
