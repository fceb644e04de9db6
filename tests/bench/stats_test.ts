/** Statistics against published or hand-computed values, and against their own definitions. */
import assert from "node:assert/strict";
import {
  bootstrapMedianCi,
  coinTail,
  countOutliers,
  hodgesLehmann,
  holm,
  mad,
  median,
  minimalDetectableEffect,
  normalQuantile,
  pairsNeeded,
  quantile,
  randomFrom,
  resampledMedians,
  signTest,
  theilSen,
  variance,
} from "../../bench/stats.ts";

function near(actual: number, expected: number, tolerance: number): void {
  assert.ok(Math.abs(actual - expected) <= tolerance, `${actual}, expected ${expected}`);
}

function normals(seed: number, n: number): number[] {
  const random = randomFrom(seed);
  return Array.from({ length: n }, () => normalQuantile(random()));
}

Deno.test("median, quantile, mad, variance", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  // numpy.quantile's default.
  assert.deepEqual([0, 0.25, 0.5, 0.9, 1].map((q) => quantile([4, 1, 3, 2], q)), [
    1,
    1.75,
    2.5,
    3.7,
    4,
  ]);
  assert.equal(mad([1, 1, 2, 2, 4, 6, 9]), 1);
  assert.equal(countOutliers([10, 11, 10, 12, 11, 50]), 1);
  assert.equal(countOutliers([1, 100, 10000]), 0);
});

Deno.test("variance keeps its digits where a sum of squares would lose them", () => {
  const far = [4, 7, 13, 16].map((x) => x + 1e9);
  assert.equal(variance(far), 30);
  const sum = far.reduce((a, b) => a + b), squares = far.reduce((a, b) => a + b * b, 0);
  assert.notEqual((squares - sum * sum / 4) / 3, 30);
});

Deno.test("normal quantile", () => {
  near(normalQuantile(0.975), 1.959963984540054, 1e-8);
  near(normalQuantile(0.8), 0.8416212335729143, 1e-8);
  near(normalQuantile(1e-6), -4.753424308822899, 1e-7);
  assert.equal(normalQuantile(0.5), 0);
  assert.equal(normalQuantile(0), -Infinity);
});

Deno.test("Theil-Sen: a line, a line with a wild point, no slope, noise", () => {
  const x = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const line = theilSen(x, x.map((v) => 2 * v + 1))!;
  assert.deepEqual([line.slope, line.lo, line.hi], [2, 2, 2]);
  const wild = theilSen(x, x.map((v) => v === 5 ? 1000 : 2 * v + 1))!;
  assert.equal(wild.slope, 2);
  assert.equal(theilSen([1, 1, 1], [1, 2, 3]), null);
  let covered = 0;
  for (let seed = 0; seed < 200; seed++) {
    const s = theilSen(x, normals(seed, x.length))!;
    if (s.lo <= 0 && s.hi >= 0) covered++;
  }
  assert.ok(covered >= 184, `${covered} of 200 intervals cover the true slope`);
});

Deno.test("Hodges-Lehmann", () => {
  assert.equal(hodgesLehmann([1, 2, 3]), 2);
  assert.equal(hodgesLehmann([1, 5, 2, 2, 7]), 3.5);
  // One wild value of ten moves it little.
  assert.ok(hodgesLehmann([1, 1, 1, 1, 1, 1, 1, 1, 1, 1e6]) < 1.1);
});

Deno.test("sign test: exact binomial tails", () => {
  near(coinTail(0, 6), 1 / 64, 1e-15);
  near(coinTail(4, 20), 0.005908966064453125, 1e-15);
  near(coinTail(500, 1000), 0.5126125, 1e-6);
  assert.equal(coinTail(-1, 5), 0);
  assert.equal(coinTail(9, 9), 1);
  const t = signTest([-1, -2, -3, -4, -5, 6, 0], 0);
  assert.deepEqual([t.below, t.above], [5, 1]);
  near(t.pBelow, 7 / 64, 1e-15);
  near(t.p, 14 / 64, 1e-15);
});

Deno.test("bootstrap: reproducible for a seed, different for another, covers the median", () => {
  const samples = normals(7, 21);
  const options = { confidence: 0.95, resamples: 10_000, seed: 42 };
  const a = bootstrapMedianCi(samples, options)!;
  assert.deepEqual(a, bootstrapMedianCi(samples, options));
  const b = bootstrapMedianCi(samples, { ...options, seed: 43 })!;
  assert.ok(a.lo <= median(samples) && median(samples) <= a.hi);
  near(a.lo, b.lo, 0.2);
  let covered = 0;
  for (let seed = 0; seed < 300; seed++) {
    const ci = bootstrapMedianCi(normals(seed, 20), { ...options, resamples: 1000, seed })!;
    if (ci.lo <= 0 && 0 <= ci.hi) covered++;
  }
  assert.ok(covered >= 276 && covered <= 297, `${covered} of 300 intervals cover the true median`);
  assert.equal(bootstrapMedianCi([1], options), null);
});

Deno.test("bootstrap medians equal medians of sorted resamples; blocks stay together", () => {
  const samples = [5, 1, 4, 2, 3];
  const fast = resampledMedians(samples, { resamples: 500, seed: 1 });
  const random = randomFrom(1);
  const slow = Array.from({ length: 500 }, () => {
    const drawn = samples.map(() => samples[Math.floor(random() * samples.length)]);
    return median(drawn);
  }).sort((a, b) => a - b);
  assert.deepEqual([...fast], slow);
  // Pairs (-1, 1) and (-3, 3): whatever is drawn, the median is 0.
  const blocks = resampledMedians([-1, 1, 3, -3], { resamples: 200, seed: 2, block: 2 });
  assert.ok(blocks.every((m) => m === 0));
  const odd = resampledMedians([1, 1, 2], { resamples: 200, seed: 3, block: 2 });
  assert.ok(odd.every((m) => m === 1 || m === 2));
});

Deno.test("Holm: a worked example, monotone, never above 1", () => {
  const adjusted = holm([0.01, 0.04, 0.03, 0.005]);
  [0.03, 0.06, 0.06, 0.02].forEach((p, i) => near(adjusted[i], p, 1e-15));
  assert.deepEqual(holm([0.9, 0.8]), [1, 1]);
  assert.deepEqual(holm([]), []);
});

Deno.test("minimal detectable effect: found with the stated power, and its inverse", () => {
  const options = { sigma: 0.0113, confidence: 0.95 };
  const mde = minimalDetectableEffect({ ...options, pairs: 20 });
  near(mde, 0.00883, 1e-4);
  assert.equal(pairsNeeded(mde, options), 20);
  let found = 0;
  for (let seed = 0; seed < 300; seed++) {
    const logs = normals(seed, 20).map((z) => Math.log1p(-mde) + 0.0113 * z);
    if (bootstrapMedianCi(logs, { confidence: 0.95, resamples: 500, seed })!.hi < 0) found++;
  }
  assert.ok(found > 0.7 * 300 && found < 0.92 * 300, `${found} of 300 found`);
});
