/** What conv_silu and conv_verify have in common: tensors, constraints and the convolution in f64. */
import type { Constraint, Sizes, TensorSpecs } from "../define.ts";

export const CONV_TENSORS = {
  proj: { axes: ["rows", "projStride"], dtypes: ["f32"], role: "in" },
  w: { axes: ["channels", "taps"], dtypes: ["f32"], role: "in" },
  convState: { axes: ["past", "channels"], dtypes: ["f32"], role: "inout" },
  y: { axes: ["rows", "channels"], dtypes: ["f32"], role: "out" },
} as const satisfies TensorSpecs;

export const CONV_CONSTRAINTS: readonly Constraint[] = [
  { axis: "taps", oneOf: [4] },
  { axis: "past", oneOf: [3] },
  { sum: ["channels"], atMost: "projStride" },
];

/** y and the new convState: u = convState ++ proj[:, 0:channels]. */
export function convolve(
  { proj, w, convState, y }: Readonly<Record<keyof typeof CONV_TENSORS, Float64Array>>,
  { rows, projStride, channels, taps, past }: Sizes,
): void {
  for (let c = 0; c < channels; c++) {
    const u: number[] = [];
    for (let i = 0; i < past; i++) u.push(convState[i * channels + c]);
    for (let t = 0; t < rows; t++) u.push(proj[t * projStride + c]);
    for (let t = 0; t < rows; t++) {
      let sum = 0;
      for (let j = 0; j < taps; j++) sum += w[c * taps + j] * u[t + j];
      y[t * channels + c] = sum / (1 + Math.exp(-sum));
    }
    for (let i = 0; i < past; i++) convState[i * channels + c] = u[rows + i];
  }
}
