/** Bytes and operations of a token against sums worked out by hand, from tapes that no device plays. */
import assert from "node:assert/strict";
import { Coster, movedBytes } from "../../engine/cost.ts";
import { inverseFrequencies } from "../../engine/model.ts";
import { shapesOf } from "../shapes_of.ts";

const NO_ROUTING = () => undefined;

/** 4-bit codes with a 16-bit scale and a 16-bit bias for 64 of them; 8-bit codes likewise. */
const q4 = (n: number) => n * (4 / 8 + 2 * 2 / 64);
const q8 = (n: number) => n * (8 / 8 + 2 * 2 / 64);
const f32 = (n: number) => 4 * n;

/** Weights that one token of Qwen3.5-35B-A3B reads: 40 layers, of which 10 have attention. */
function a3bWeights(experts: number): number {
  const h = 2048;
  const gdn = q4(8192 * h) + q4(4096 * h) + q4(32 * h) + q4(32 * h) + q4(h * 4096) +
    f32(8192 * 4) + f32(32) + f32(32) + f32(128);
  const attention = q4(8192 * h) + q4(512 * h) + q4(512 * h) + q4(h * 4096) + f32(256) + f32(256) +
    f32(32);
  const moe = q8(256 * h) + q8(1 * h) + experts * 3 * q4(512 * h) + 3 * q4(512 * h);
  const norms = 40 * 2 * f32(h) + f32(h);
  const head = q4(248320 * h), row = q4(h);
  return 30 * gdn + 10 * attention + 40 * moe + norms + head + row;
}

/** Each of 30 layers reads and writes 32 matrices of 128 x 128 and the last 3 rows of 8192 channels. */
const A3B_STATE = 30 * 2 * (f32(32 * 128 * 128) + f32(3 * 8192));

/** Each of 10 layers reads a key and a value of 2 heads of 256 halves for every token, and writes its own. */
function a3bKv(depth: number): number {
  const token = 10 * 2 * (2 * 256 * 2);
  return token * (depth + 1) + token;
}

Deno.test("cost: a decoded token of qwen35-a3b at depths 0, 1K and 32K", () => {
  const coster = new Coster(shapesOf("35B-A3B"), { ctx: 40960, kv: "f16", prefillRows: 512 });
  for (const depth of [0, 1024, 32768]) {
    const { bytes } = coster.play(1, depth, depth + 1, "sample", NO_ROUTING);
    assert.equal(bytes.weights, a3bWeights(8), `weights at ${depth}`);
    assert.equal(bytes.recurrent, A3B_STATE, `state at ${depth}`);
    assert.equal(bytes.kv, a3bKv(depth), `kv at ${depth}`);
  }
  // As published: about 1.67 GB of weights a token, 129 MB of state.
  assert(Math.abs(a3bWeights(8) / 1.67e9 - 1) < 0.01);
  assert(Math.abs(A3B_STATE / 129e6 - 1) < 0.06);
});

Deno.test("cost: a run of tokens costs the mean of its plays", () => {
  const coster = new Coster(shapesOf("35B-A3B"), { ctx: 8192, kv: "f16", prefillRows: 512 });
  const run = coster.decode(64, 1024, NO_ROUTING);
  let kv = 0;
  for (let i = 0; i < 64; i++) kv += a3bKv(1024 + i) / 64;
  assert.equal(run.bytes.kv, kv);
  assert.equal(movedBytes(run), a3bWeights(8) + A3B_STATE + kv);
});

Deno.test("cost: rows of one play share weights and the union of their experts", () => {
  const coster = new Coster(shapesOf("35B-A3B"), { ctx: 8192, kv: "f16", prefillRows: 512 });
  const row = q4(2048);
  for (const [rows, distinct] of [[4, 27], [4, undefined], [16, 97]] as const) {
    const { bytes } = coster.play(rows, 100, 100 + rows, "sample", () => distinct);
    const experts = distinct ?? 8 * rows;
    assert.equal(bytes.weights, a3bWeights(experts) + (rows - 1) * row, `${rows} rows`);
    assert.equal(bytes.recurrent, A3B_STATE);
  }
});

Deno.test("cost: a prefill reads all experts once a chunk, and its tokens share them", () => {
  const coster = new Coster(shapesOf("35B-A3B"), { ctx: 8192, kv: "f16", prefillRows: 512 });
  const plays = coster.prefill(1100, 0, () => 256);
  assert.deepEqual(plays.map((p) => p.rows), [512, 512, 76]);
  // Only the last chunk needs the head.
  const head = q4(248320 * 2048), row = q4(2048);
  const withoutHead = a3bWeights(256) - head - row;
  assert.equal(plays[0].cost.bytes.weights, withoutHead + 512 * row);
  assert.equal(plays[2].cost.bytes.weights, withoutHead + head + 76 * row);
});

Deno.test("cost: floating point operations are twice the active weights and more", () => {
  const coster = new Coster(shapesOf("0.8B"), { ctx: 4096, kv: "f16", prefillRows: 512 });
  const { flops } = coster.play(1, 0, 1, "sample", NO_ROUTING);
  const products = 2 * 752_393_024;
  assert(flops > products && flops < 1.1 * products, `${flops}`);
});

Deno.test("cost: shapes have the constants that a loaded model has", () => {
  assert.equal(inverseFrequencies(shapesOf("35B-A3B").config).length, 32);
});
