/** Arithmetic of `inspect` against the tables of spec/qwen35.md sections 1, 9 and 10 (spec/budget.py). */
import assert from "node:assert/strict";
import {
  decodeBytesAt,
  type FormatOf,
  kvBytesPerToken,
  memoryForecast,
  mlxFormat,
  modelFacts,
  scratchGuess,
  stateBytes,
} from "../../engine/checkpoint/facts.ts";
import { parseConfig } from "../../kernels/models/qwen35_config.ts";
import { configJson, type Size } from "../synth.ts";

/** The tables count norms, convolution and decay at 2 bytes; the state of the convolution too. */
const inTables: FormatOf = (w) => {
  const format = mlxFormat(4)(w);
  return format === "f32" ? "bf16" : format;
};

/**
 * Active weights, MTP weights, weight bytes per token, GDN state, convolution state at 2 bytes, KV per
 * token, then GFLOP: products, head, chunked GDN, recurrent GDN, attention per 1K.
 */
const TABLE: Record<Size, readonly number[]> = {
  "0.8B": [
    752393024,
    20452864,
    423938240,
    18874368,
    663552,
    12288,
    0.995,
    0.509,
    0.046,
    0.038,
    0.05,
  ],
  "2B": [
    1881825088,
    60828160,
    1059316480,
    18874368,
    663552,
    12288,
    2.745,
    1.017,
    0.046,
    0.038,
    0.05,
  ],
  "4B": [
    4205751296,
    120599552,
    2367118752,
    50331648,
    1179648,
    32768,
    7.138,
    1.271,
    0.122,
    0.101,
    0.134,
  ],
  "9B": [
    7936684544,
    243290624,
    4465913088,
    50331648,
    1179648,
    32768,
    13.837,
    2.034,
    0.122,
    0.101,
    0.134,
  ],
  "27B": [
    25624600064,
    424699392,
    14417643328,
    150994944,
    2949120,
    65536,
    48.701,
    2.543,
    0.365,
    0.302,
    0.403,
  ],
  "35B-A3B": [
    2946429568,
    844640768,
    1669561728,
    62914560,
    1474560,
    20480,
    4.873,
    1.017,
    0.152,
    0.126,
    0.168,
  ],
  "122B-A10B": [
    9008449536,
    2523679232,
    5089196736,
    150994944,
    2654208,
    24576,
    16.487,
    1.526,
    0.365,
    0.302,
    0.403,
  ],
  "397B-A17B": [
    16331922176,
    6595568128,
    9253665536,
    188743680,
    3317760,
    30720,
    30.624,
    2.034,
    0.456,
    0.377,
    0.503,
  ],
};

const config = (size: Size) => parseConfig(configJson(size), size);

function assertNear(got: number, want: number, within: number, what: string): void {
  assert(Math.abs(got - want) <= within, `${what}: ${got}, want ${want}`);
}

Deno.test("facts: every size agrees with the tables", () => {
  for (const [size, row] of Object.entries(TABLE) as [Size, readonly number[]][]) {
    const c = config(size), facts = modelFacts(c, inTables, "bf16");
    const [active, draft, bytes, gdn, conv, kv, ...flops] = row;
    assert.equal(facts.parametersActive, active, size);
    assert.equal(facts.parametersDraft, draft, size);
    assert.equal(facts.decode.weightBytes, bytes, size);
    assert.equal(facts.decode.kvBytesPerToken, kv, size);
    // Here the state of the convolution is f32: twice the bytes of the table.
    assert.equal(facts.decode.stateBytes, 2 * (gdn + 2 * conv), size);
    for (const context of [0, 1024, 32768, 262144]) {
      const tables = bytes + 2 * (gdn + conv) + kv * context;
      assert.equal(decodeBytesAt(facts, context) - 2 * conv, tables, size);
    }
    const { prefill } = facts;
    const got = [
      prefill.matmulFlops,
      prefill.headFlops,
      prefill.gdnChunkFlops,
      prefill.gdnRecurrentFlops,
      prefill.attentionFlopsPerKey * 1024,
    ];
    for (const [i, want] of flops.entries()) assertNear(got[i] / 1e9, want, 5e-4, `${size} ${i}`);
  }
});

Deno.test("facts: 35B-A3B part by part", () => {
  const { decode } = modelFacts(config("35B-A3B"), inTables, "bf16");
  const want: Record<string, readonly [number, number]> = {
    "GDN mixers": [1010.8, 568.6],
    "attention mixers": [272.6, 153.4],
    "routed experts": [1006.6, 566.2],
    "shared expert": [125.8, 70.8],
    "router and shared gate": [21.1, 22.4],
    "output head": [508.6, 286.1],
    "norms, convolution, decay": [1.2, 2.3],
  };
  for (const [part, [weights, bytes]] of Object.entries(want)) {
    const found = decode.parts.find((p) => p.part === part)!;
    assertNear(found.weights / 1e6, weights, 0.25, part);
    assertNear(found.bytes / 1e6, bytes, 0.25, part);
  }
  // The rows of the table are rounded more coarsely than their sum.
  assertNear(decode.weightBytes / 1e6, 1669.6, 0.05, "weights");
});

Deno.test("facts: 35B-A3B as stored here: f32 norms, convolution and states", () => {
  const facts = modelFacts(config("35B-A3B"), mlxFormat(4));
  const shown = [0, 1024, 32768, 262144].map((n) => (decodeBytesAt(facts, n) / 1e9).toFixed(3));
  assert.deepEqual(shown, ["1.804", "1.825", "2.475", "7.172"]);
  assertNear(facts.weightBytes / 1e9, 19.5, 0.05, "file");
});

Deno.test("facts: memory of a session", () => {
  const c = config("0.8B");
  assert.equal(kvBytesPerToken(c, "f16"), 12288);
  assert.equal(kvBytesPerToken(c, "f32"), 24576);
  assert.equal(kvBytesPerToken(c, "q8"), 6 * 2 * 2 * (256 + 16));
  assert.equal(stateBytes(c), 18 * (16 * 128 * 128 + 3 * 6144) * 4);
  const load = { mapped: 400e6, copied: 5e6 };
  const forecast = memoryForecast(c, load, {
    ctx: 1000,
    kv: "f16",
    scratchBytes: 7,
    stateSlots: 2,
  });
  assert.deepEqual(forecast, {
    weightsMapped: 400e6,
    weightsCopied: 5e6,
    kv: 12_288_000,
    state: 2 * stateBytes(c),
    scratch: 7,
    total: 405e6 + 12_288_000 + 2 * stateBytes(c) + 7,
  });
  assert(scratchGuess(c, 512) > 512 * 4 * c.hidden);
});
