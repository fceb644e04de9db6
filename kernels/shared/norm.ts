/** The RMS norm in f64 that references share. */

/** y = x / sqrt(mean(x^2) + eps) * w, one row. */
export function normRow(x: Float64Array, w: Float64Array, y: Float64Array, eps: number): void {
  let sum = 0;
  for (const v of x) sum += v ** 2;
  const scale = 1 / Math.sqrt(sum / x.length + eps);
  for (let d = 0; d < x.length; d++) y[d] = x[d] * scale * w[d];
}
