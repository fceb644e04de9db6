/**
 * One test for each way in which published engines were found to go wrong (the audit findings of their own
 * reviews, and the defects found by reading them): the situation is planted here, on the widest instruction set
 * and on the emulator. Where another file proves a finding, the test fails if that proof vanished.
 */
import assert from "node:assert/strict";
import * as layout from "../../ffi/abi/layout.ts";
import { NativeError } from "../../ffi/abi/error.ts";
import { kernelTable } from "../../ffi/tape/op_ids.ts";
import { axesOf, type Fill, type Op, type Sizes } from "../../kernels/define.ts";
import { philox4x32 } from "../../kernels/shared/philox.ts";
import { STEP, STEP_WORDS } from "../../kernels/step.ts";
import { OPS } from "../../kernels/table.ts";
import { growTree, ngramContinuations } from "../../engine/speculate/tree.ts";
import { emit } from "../../native/msl/emit.ts";
import { read } from "../../native/msl/main.ts";
import { bundle } from "../../native/msl/source.ts";
import { failuresOf, prepareCase, type Prepared } from "./check_case.ts";
import { KERNEL_DEVICES, type Level, LEVELS, levelsOf } from "./devices.ts";
import { type Dtypes, type OpCase, opCase } from "./op_case.ts";
import { recordCase } from "./record_case.ts";
import { poisonData } from "./tensor_data.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const PLAYED: readonly Level[] = [LEVELS[0], ...KERNEL_DEVICES];
const Q4 = "q4g64_bf16", Q8 = "q8g64_f16";
const WORDS = layout.RECORD_HEAD_WORDS + layout.SLOTS_MAX;

function opOf(name: string): Op {
  return OPS.find((op) => op.name === name)!;
}

/** The case, which the op must take; `fill` in place of its own. */
function caseOf(
  name: string,
  sizes: Sizes,
  dtypes: Dtypes = {},
  fill: Readonly<Record<string, Fill>> = {},
): OpCase {
  const op = opOf(name), c = opCase({ ...op, fill: { ...op.fill, ...fill } }, dtypes, sizes);
  assert.ok(c, `${name} refuses ${JSON.stringify(sizes)}`);
  return c;
}

/** Plays the case and compares every element; gives what the reference made of it. */
function right(c: OpCase): Prepared["want"] {
  const prepared = prepareCase(c);
  assert.deepEqual(PLAYED.flatMap((level) => failuresOf(prepared, level)), []);
  return prepared.want;
}

/** The record of the case with one of its words changed must be refused when it is loaded. */
function refusedAtLoad(c: OpCase, word: number, value: number, says: RegExp): void {
  for (const level of PLAYED) {
    const { tape, arena } = recordCase(c, level.form), bad = tape.slice();
    new DataView(bad.buffer).setUint32(layout.TAPE_HEAD_BYTES + 4 * word, value, true);
    const load = (bytes: Uint8Array<ArrayBuffer>) =>
      level.one.device.load(bytes, arena.bindings(level.one.memory(arena.bytes)), null);
    load(tape)[Symbol.dispose]();
    assert.throws(() => load(bad), (e: Error) => {
      assert.ok(e instanceof NativeError && e.refused, `${level.isa}: ${e.message}`);
      assert.match(e.message, says, level.isa);
      return true;
    });
  }
}

function hasCase(name: string, is: (s: Sizes) => boolean): boolean {
  return opOf(name).cases.some(is);
}

const heads = { qHeads: 16, kvHeads: 2, headDim: 256, stepWords: STEP_WORDS, scale: 1 / 16 };
const chain = { maskStride: 16, tree: 0 };
const ATTENTION: readonly [string, Sizes][] = [
  ["attn_decode", { ...heads, rows: 2, ctx: 90, pos: 70 }],
  ["attn_decode_gate", { ...heads, rows: 2, ctx: 90, pos: 70, qkvWidth: 2 * 16 * 256 }],
  ["attn_split", { ...heads, rows: 2, ctx: 300, pos: 270, blocks: 2, stat: 2 }],
  ["attn_prefill", { ...heads, rows: 5, ctx: 90, pos: 70 }],
  ["attn_tree", { ...heads, ...chain, rows: 2, ctx: 90, pos: 70 }],
];
for (const [name, sizes] of ATTENTION) {
  Deno.test(`finding D1, B7.1: ${name} at head_dim 256 is right in all dims, and no other kernel's`, () => {
    const c = caseOf(name, sizes, { kCache: "f16" });
    assert.match(c.kernel, /_h256$/);
    right(c);
    const other = kernelTable().findIndex((k) => k.name === c.kernel.replace("h256", "h128"));
    refusedAtLoad(c, 0, other, /breaks constraint|has headDim|size/);
  });
}

Deno.test("finding B7.2: there is one op of add and norm, and it gives the sum and its norm", () => {
  const adds = OPS.filter((op) => /add.*norm|norm.*add|norm.*residual/.test(op.name));
  assert.deepEqual(adds.map((op) => op.name), ["add_rms_norm"]);
  const constant = (v: number): Fill => (s) => new Float64Array(s.rows * s.dim).fill(v);
  const want = right(caseOf("add_rms_norm", { rows: 2, dim: 2816, eps: 0 }, {}, {
    x: constant(3),
    delta: constant(-7),
    w: (s) => new Float64Array(s.dim).fill(0.5),
  }));
  assert.deepEqual(Object.keys(want), ["x", "y"]);
  assert.ok(want.x.every((v) => v === -4) && want.y.every((v) => v === -0.5));
});

Deno.test("finding B7.3: split attention takes any number of blocks; 2 gave zeros", () => {
  for (const blocks of [1, 2, 3, 5]) {
    const s = { ...heads, qHeads: 2, kvHeads: 1, rows: 1, ctx: 64, pos: 63, blocks, stat: 2 };
    const { stats } = right(caseOf("attn_split", s, { kCache: "f32" }));
    assert.ok(stats[1] >= 1, "the sum of the only block with keys");
    right(caseOf("attn_merge", s));
  }
});

Deno.test("finding B7.4: products with 1 or 33 outputs, for one row and for many", () => {
  for (const w0 of ["bf16", Q4, Q8] as const) {
    for (const [out0, out1] of [[1, 0], [33, 1]]) {
      const s = { inDim: 128, out0, out1, out2: 0, out3: 0, yStride: out0 + out1, yCol: 0 };
      right(caseOf("gemv", { ...s, rows: 1 }, { w0 }));
      right(caseOf("gemm", { ...s, rows: 35 }, { w0 }));
      right(caseOf("norm_gemv", { ...s, rows: 3, eps: 1e-6 }, { w0 }));
    }
  }
});

Deno.test("finding D2: fused q, k, v and fused norm are right at hidden 2048, 2816, 4096 and 5120", () => {
  for (const inDim of [2048, 2816, 4096, 5120]) {
    const s = { inDim, out0: 48, out1: 16, out2: 16, out3: 0, yStride: 80, yCol: 0, eps: 1e-6 };
    right(caseOf("gemv", { ...s, rows: 2 }, { w0: Q4 }));
    right(caseOf("norm_gemv", { ...s, rows: 2 }, { w0: Q4 }));
    right(caseOf("gemm", { ...s, rows: 18 }, { w0: Q4 }));
  }
});

Deno.test("finding D5: rows share one stream of weights", () => {
  const groups = (name: string, rows: number) => {
    const { simt } = opOf(name);
    assert.ok("groups" in simt);
    const s = { rows, inDim: 64, out0: 640, out1: 0, out2: 0, out3: 0, yStride: 640, yCol: 0 };
    return simt.groups(s).reduce((a, b) => a * b);
  };
  assert.equal(groups("gemv", 4), groups("gemv", 1));
  assert.equal(groups("norm_gemv", 4), groups("norm_gemv", 1));
  assert.equal(groups("gemm", 64), groups("gemm", 1));
  const s = { rows: 16, inDim: 64, out0: 640, out1: 0, out2: 0, out3: 0 };
  assert.equal(opOf("gemv").tasks(s), opOf("gemv").tasks({ ...s, rows: 1 }));
});

Deno.test("finding D6: outputs need no zeroing, they are written whole or left alone", () => {
  // Outputs begin as NaN, so one that a kernel adds to or forgets fails.
  assert.ok([...poisonData("f32", [4]).values].every(Number.isNaN));
  const s = { rows: 20, inDim: 64, out0: 5, out1: 2, out2: 0, out3: 0, yStride: 11, yCol: 2 };
  const { y } = right(caseOf("gemm", s, { w0: Q4 }));
  assert.equal(y.filter(Number.isNaN).length, 20 * 4);
});

Deno.test("finding D7: a masked first key, and nothing but masked keys, give no NaN", () => {
  const s = { ...heads, qHeads: 3, kvHeads: 1, rows: 5, ctx: 300, maskStride: 5, tree: 0 };
  for (const pos of [0, 7, 31, 256]) {
    // Keys before row i's own are masked with -inf, and row 0 sees not even itself.
    const mask: Fill = () =>
      Float64Array.from({ length: 25 }, (_, at) => at % 6 === 0 && at > 0 ? 0 : -Infinity);
    const { o } = right(caseOf("attn_tree", { ...s, pos }, { kCache: "f32" }, { mask }));
    assert.ok(o.every(Number.isFinite));
    const first = o.subarray(0, 3 * 256);
    assert.equal(first.every((v) => v === 0), pos === 0, "without a key to see the row is 0");
  }
});

Deno.test("finding D8: continuations of the history follow the anchor, not the first of them", () => {
  const limits = { branching: 2, depth: 2, nodes: 9 };
  const tree = growTree([1, 5, 1, 6, 1, 5, 1], ngramContinuations(1, 1), limits);
  assert.deepEqual(tree.tokens.filter((_, i) => tree.parents[i] === 0), [5, 6]);
  assert.deepEqual(tree.tokens.filter((_, i) => tree.parents[i] === 1), [1]);
});

/** The seed whose draw for position 9 has all bits 0, and the one where all are 1. */
const EXTREME_SEEDS = [[1741399179, 0], [708606538, 0xffffffff]] as const;

Deno.test("finding D10: the draws nearest to 0 and to 1 pick the first and the last likely token", () => {
  const vocab = 1000, sizes = { one: 1, vocab, stepWords: STEP_WORDS, ctx: 20, two: 2, rows: 2 };
  const logits: Fill = () =>
    Float64Array.from({ length: vocab }, (_, i) => i < 3 || i > 995 ? -Infinity : i % 2);
  const one = new Uint32Array(Float32Array.of(1).buffer)[0];
  for (const topP of [1, 0.5]) {
    for (const [seed, bits] of EXTREME_SEEDS) {
      assert.equal(philox4x32([seed, 2], [9, 0, 0, 0])[0], bits);
      const step: Fill = () => {
        const words = new Uint32Array(STEP_WORDS);
        Object.entries({ pos: 7, ctx: 20, vocabUsed: vocab, seedLo: seed, seedHi: 2 })
          .forEach(([field, v]) => words[STEP[field as "pos"]] = v);
        words[STEP.temperature] = words[STEP.repeatPenalty] = one;
        words[STEP.topP] = new Uint32Array(Float32Array.of(topP).buffer)[0];
        return words;
      };
      const { picked } = right(caseOf("sample", sizes, {}, { logits, step }));
      // Half of the probability lies in the first 340 odd tokens.
      assert.equal(picked[0], bits === 0 ? 3 : topP === 1 ? 995 : 681);
    }
  }
});

const router = { rows: 4, logitStride: 256, topK: 8, experts: 256 };

Deno.test("finding D11: topK above the experts is refused when recorded and when loaded", () => {
  const op = opOf("router_topk"), c = caseOf("router_topk", router);
  assert.equal(opCase(op, {}, { ...router, experts: 7 }), null);
  assert.throws(
    () => recordCase({ ...c, sizes: { ...c.sizes, experts: 7 } }),
    /Cannot record router_topk: topK is 8, more than experts/,
  );
  refusedAtLoad(c, WORDS + axesOf(op).length, 7, /breaks constraint/);
});

Deno.test("finding D11: NaN logits choose distinct experts, and weights sum to 1", () => {
  for (
    const odd of [() => NaN, (i: number) => i % 3 ? NaN : -Infinity, (i: number) => i - 1 ? NaN : 2]
  ) {
    const logits: Fill = (s) =>
      Float64Array.from({ length: s.rows * s.logitStride }, (_, i) => odd(i % s.logitStride));
    const { ids, weights } = right(caseOf("router_topk", router, {}, { logits }));
    for (let r = 0; r < router.rows; r++) {
      assert.equal(new Set(ids.subarray(8 * r, 8 * r + 8)).size, 8);
      const sum = [...weights.subarray(8 * r, 8 * r + 8)].reduce((a, b) => a + b);
      assert.ok(Math.abs(sum - 1) < 1e-6);
    }
  }
});

Deno.test("finding D12: 256 experts, 8 of them, with ties and with equal logits; sampling on every device", () => {
  assert.ok(hasCase("router_topk", (s) => s.experts === 256 && s.topK === 8));
  const logitsOf = (value: (i: number) => number): Fill => (s) =>
    Float64Array.from({ length: s.rows * s.logitStride }, (_, i) => value(i % s.logitStride));
  const equal = right(caseOf("router_topk", router, {}, { logits: logitsOf(() => 1.5) }));
  assert.deepEqual([...equal.ids.subarray(0, 8)], [0, 1, 2, 3, 4, 5, 6, 7]);
  const ties = right(caseOf("router_topk", router, {}, { logits: logitsOf((i) => i >> 6) }));
  assert.deepEqual([...ties.ids.subarray(0, 8)], [192, 193, 194, 195, 196, 197, 198, 199]);
  assert.deepEqual(levelsOf(opOf("sample")), [...LEVELS, ...KERNEL_DEVICES]);
});

Deno.test("finding D13: both maps from value heads to key heads", () => {
  for (const op of OPS.filter((op) => "headMap" in op.params)) {
    assert.ok(op.cases.some((s) => s.headMap === 1 && s.kHeads > 1), op.name);
  }
  const s = { two: 2, kHeads: 2, vHeads: 6, headDim: 16, channels: 160 };
  for (const [name, rows] of [["gdn_step", 2], ["gdn_chunk", 70]] as const) {
    const [grouped, tiled] = [0, 1].map((headMap) => {
      // A label of its own, by which inputs are seeded: both maps get the same.
      return right({ ...caseOf(name, { ...s, rows, headMap }), label: `${name} of both maps` }).o;
    });
    const head = (o: typeof grouped, h: number) => o.subarray(16 * h, 16 * h + 16).join();
    // h / 3 against h % 2 for h = 0..5.
    const same = [0, 1, 2, 3, 4, 5].map((h) => head(grouped, h) === head(tiled, h));
    assert.deepEqual(same, [true, false, true, true, false, true], name);
  }
});

Deno.test("finding D14: the softplus of a large a + dt_bias is a + dt_bias", () => {
  const s = { rows: 1, projStride: 12, vHeads: 6, bCol: 0, aCol: 6 };
  const a = [20, 88, 89, 200, 1e30, -200];
  const { g } = right(caseOf("gdn_gates", s, {}, {
    proj: () => Float64Array.from({ length: 12 }, (_, i) => i < 6 ? 0 : a[i - 6]),
    negA: () => new Float64Array(6).fill(-1),
    dtBias: () => new Float64Array(6).fill(100),
  }));
  assert.deepEqual([...g.subarray(0, 4)], [-120, -188, -189, -300]);
  assert.ok(g.every(Number.isFinite));
});

Deno.test("finding D15: what a kernel takes of threadgroup memory is held against 32 KiB by the compiler", async () => {
  for (const name of ["attn_decode", "attn_tree", "gemm", "gdn_chunk", "gated_rms_norm"]) {
    const path = `kernels/ops/${name}/${name}.metal`;
    const text = emit(await read(bundle(ROOT, path), path, "emu"), "emu", name);
    assert.match(text, /static_assert\([^;]*<=\s*32768/, name);
  }
});
