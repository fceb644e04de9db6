import { defineOp } from "../../define.ts";
import { ACT8_ON_CPU_ONLY, ACT_GROUP, codeAt } from "../../formats/act8.ts";
import { roundEven } from "../../formats/affine.ts";

export const quantAct8 = defineOp({
  name: "quant_act8",
  doc:
    "scales[r,g] = max|x| / 127 over 32 elements, codes = round(x / scale), sums = scale * sum(codes)",
  tensors: {
    x: { axes: ["rows", "dim"], dtypes: ["f32"], role: "in" },
    codes: { axes: ["rows", "dim"], dtypes: ["i8"], role: "out" },
    scales: { axes: ["rows", "groups"], dtypes: ["f32"], role: "out" },
    sums: { axes: ["rows", "groups"], dtypes: ["f32"], role: "out" },
  },
  params: { split: "u32" },
  constraints: [
    { axis: "dim", multipleOf: 64 },
    { product: ["groups", ACT_GROUP], equals: "dim" },
    { axis: "split", max: 1 },
  ],
  tasks: (s) => s.rows,
  simt: ACT8_ON_CPU_ONLY,
  reference: ({ x, codes, scales, sums }, { split }, { rows, dim, groups }) => {
    for (let r = 0; r < rows; r++) {
      for (let g = 0; g < groups; g++) {
        let max = 0;
        for (let i = 0; i < ACT_GROUP; i++) {
          max = Math.max(max, Math.abs(x[r * dim + g * ACT_GROUP + i]));
        }
        // As stored: codes are rounded against the scale that they will be multiplied by.
        const scale = Math.fround(max / 127);
        let sum = 0;
        for (let i = g * ACT_GROUP; i < (g + 1) * ACT_GROUP; i++) {
          // Beyond 127 only where the scale is subnormal and so imprecise.
          const q = scale === 0 ? 0 : roundEven(Math.fround(x[r * dim + i] / scale));
          const code = Math.max(-127, Math.min(127, q));
          codes[r * dim + codeAt(i, split === 1)] = code;
          sum += code;
        }
        scales[r * groups + g] = scale;
        sums[r * groups + g] = scale * sum;
      }
    }
  },
  tolerance: { f32: { rel: 2e-7, ofRms: 1e-9 }, i8: { rel: 0, ofRms: 0 } },
  cases: [
    { rows: 1, dim: 64, groups: 2, split: 0 },
    { rows: 1, dim: 64, groups: 2, split: 1 },
    { rows: 3, dim: 192, groups: 6, split: 1 },
    { rows: 17, dim: 2048, groups: 64, split: 0 },
    { rows: 16, dim: 4096, groups: 128, split: 1 },
  ],
  flops: (s) => 5 * s.rows * s.dim,
});
