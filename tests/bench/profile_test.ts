/** Figures of a profile from scripted times, and what its lines say. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { contextFor, type ProfiledPlay, takeProfile } from "../../bench/profile.ts";
import { profileFigures, type RecordFacts } from "../../bench/profile_figures.ts";
import { type Profile, PROFILE_SCHEMA, profileSchema } from "../../bench/profile_report.ts";
import { painter } from "../../cli/print.ts";
import { profileTable } from "../../cli/profile_table.ts";
import { HEAD } from "./fake_report.ts";
import { FakeClock } from "./fake_rig.ts";

/** A play whose times are scripted: of each record by run, and of a whole plain play. */
class FakePlay implements ProfiledPlay {
  readonly playsPerCall = 32;
  readonly calls: string[] = [];
  #run = 0;
  constructor(
    readonly clock: FakeClock,
    readonly recordNs: (record: number, run: number) => number,
    readonly playNs: number,
  ) {}
  rewind(): Promise<void> {
    this.calls.push("rewind");
    this.clock.advance(5e6);
    return Promise.resolve();
  }
  profile(): number[] {
    this.calls.push("profile");
    this.clock.advance(9e6);
    const run = this.#run++;
    return [0, 1, 2, 3].map((r) => this.recordNs(r, run));
  }
  plain(): Promise<void> {
    this.calls.push("plain");
    this.clock.advance(32 * this.playNs);
    return Promise.resolve();
  }
}

const bytes = (weights: number, kv = 0, state = 0) => ({ weights, kv, state });
const RECORDS: RecordFacts[] = [
  { op: "embed", part: "ends", layer: null, bytes: bytes(100), flops: 0 },
  { op: "gemv", part: "gdn", layer: 0, bytes: bytes(6000, 0, 2000), flops: 12_000 },
  { op: "gemv", part: "attention", layer: 1, bytes: bytes(2000, 2000), flops: 4000 },
  { op: "swiglu", part: "attention", layer: 1, bytes: bytes(0), flops: 10 },
].map((r) => ({ ...r, kernel: `${r.op}__f32`, waits: r.op !== "embed" }) as RecordFacts);

async function figures(playNs = 6500, repetitions = 5) {
  const clock = new FakeClock();
  // The first run warms up and is in no median; one of the others is disturbed.
  const play = new FakePlay(
    clock,
    (r, run) => [0, 1, 9, 1, 1, 1][run] * [100, 4000, 2000, 0][r],
    playNs,
  );
  const times = await takeProfile(play, { clock, repetitions });
  return { play, times, ...profileFigures(RECORDS, times, 4) };
}

Deno.test("profile: medians of each record, their sum, and the gap to a plain step", async () => {
  const p = await figures();
  assert.deepEqual(p.records.map((r) => r.ns), [100, 4000, 2000, 0]);
  assert.equal(p.sum_ns, 6100);
  assert.equal(p.step.ns, 6500);
  assert.deepEqual(p.step.calls_ns, new Array(5).fill(32 * 6500));
  assert.equal(p.gap_ns, 400);
  assert(Math.abs(p.gap_pct - 400 / 65) < 1e-12);
  const apart = await figures(6000);
  assert.equal(apart.gap_ns, -100);
});

Deno.test("profile: groups by op, layer and part, with bytes and the share of what is measured", async () => {
  const { by_op, by_layer, by_part } = await figures();
  assert.deepEqual(by_op.map((g) => [g.name, g.records, g.ns, g.bytes]), [
    ["gemv", 2, 6000, 12_000],
    ["embed", 1, 100, 100],
    ["swiglu", 1, 0, 0],
  ]);
  assert.equal(by_op[0].gb_s, 2);
  assert.equal(by_op[0].pct_of_measured_bw, 50);
  assert.equal(by_op[0].share_pct, 100 * 6000 / 6100);
  assert.deepEqual([by_op[2].gb_s, by_op[2].pct_of_measured_bw, by_op[2].tflop_s], [
    null,
    null,
    null,
  ]);
  assert.deepEqual(by_layer.map((g) => g.name), ["ends", "0 gdn", "1 attention"]);
  assert.deepEqual(by_part.map((g) => [g.name, g.records]), [["gdn", 1], ["attention", 2], [
    "ends",
    1,
  ]]);
  for (const groups of [by_op, by_layer, by_part]) {
    const share = groups.reduce((sum, g) => sum + g.share_pct, 0);
    assert(Math.abs(share - 100) < 1e-9);
  }
});

Deno.test("profile: every play begins at the filled state, and what warms up is in no figure", async () => {
  const { play, times } = await figures();
  const before = play.calls.filter((_, i) =>
    play.calls[i + 1] !== "rewind" && i + 1 < play.calls.length
  );
  assert(before.every((c) => c === "rewind"), play.calls.join(" "));
  assert.equal(play.calls.at(-1), "rewind");
  assert.deepEqual(play.calls.slice(0, 6), [
    "rewind",
    "plain",
    "rewind",
    "plain",
    "rewind",
    "profile",
  ]);
  assert.equal(times.profiles.length, 5);
});

Deno.test("profile: slow plays get fewer plain calls, an abort ends it", async () => {
  const slow = await figures(1e8, 20);
  assert.equal(slow.times.callsNs.length, 5);
  assert.equal(slow.times.profiles.length, 20);
  const clock = new FakeClock(), play = new FakePlay(clock, () => 1, 1);
  const controller = new AbortController();
  controller.abort(new Error("enough"));
  await assert.rejects(
    takeProfile(play, { clock, repetitions: 3, signal: controller.signal }),
    /enough/,
  );
});

Deno.test("profile: the context holds what is timed", () => {
  const decode = { phase: "decode", rows: 1, n_depth: 4096 } as const;
  assert.equal(contextFor({ ...decode, ctx: 0 }, 262144), 4129);
  assert.equal(contextFor({ ...decode, n_depth: 10, ctx: 0 }, 262144), 4096);
  assert.equal(contextFor({ ...decode, n_depth: 10, ctx: 0 }, 1024), 1024);
  assert.equal(contextFor({ phase: "prefill", rows: 512, n_depth: 4096, ctx: 0 }, 1e6), 4609);
  assert.equal(contextFor({ ...decode, ctx: 5000 }, 262144), 5000);
  assert.throws(
    () => contextFor({ ...decode, ctx: 4100 }, 262144),
    /^UserError: --ctx 4100 is too small: .* Give --ctx 4129 or more\.$/,
  );
});

async function profile(playNs?: number): Promise<Profile> {
  const { play: _, times: __, ...all } = await figures(playNs);
  return v.parse(profileSchema, {
    ...HEAD,
    schema: PROFILE_SCHEMA,
    model: {
      alias: "fake",
      path: null,
      format: "safetensors",
      arch: "qwen3_5",
      quant: "f32",
      bytes_total: 1,
      params_total: 1,
      params_active: 1,
      weights_sha256_16: null,
      tokenizer_sha256: null,
      synthetic: false,
    },
    spec: {
      model: "fake",
      synthetic: null,
      device: "cpu",
      threads: 2,
      quantize: null,
      plan: {},
      phase: "decode",
      rows: 1,
      n_depth: 7,
      kv: "f16",
      ctx: 64,
      repetitions: 5,
    },
    tape_sha256: "ab".repeat(32),
    working_set_bytes: 12_100,
    measured_gb_s: 4,
    ...all,
  });
}

Deno.test("profile: the table has groups, parts, and always the gap", async () => {
  const plain = painter(false, {});
  const byOp = profileTable(await profile(), "op", plain);
  for (
    const part of [
      /\ndecode: 1 row behind 7 tokens, KV f16: 4 records, medians of 5 plays\n/,
      /\nop +records +us +share +bytes +GB\/s +of read\n/,
      /\ngemv +2 +6\.0 +98\.4 % +12\.0 kB +2\.00 +50\.0 %\n/,
      /\nswiglu +1 +0\.0 +0\.0 %\n/,
      /\ngdn layers \(1\) +1 /,
      /\nattention layers \(1\) +2 /,
      /\nthe ends +1 /,
      /\nsum of the records 6\.1 us, step 6\.5 us unprofiled \(5 calls of 32 plays\), gap 0\.4 us \(6\.2 %\)\n/,
      /\nof read: the share of 4\.0 GB\/s, which cpu reads/,
    ]
  ) assert.match(byOp, part);
  assert.doesNotMatch(byOp, /without a time/);
  const taken = await profile();
  const onCuda = {
    ...taken,
    spec: { ...taken.spec, device: "cuda" as const },
    records: taken.records.map((r) => r.op === "swiglu" ? { ...r, ns: 0 } : r),
  };
  assert.match(
    profileTable(onCuda, "op", plain),
    /\n1 record without a time, swiglu: done by the record before in the same launch, or shorter than the clock tells\n/,
  );
  const byLayer = profileTable(await profile(), "layer", plain);
  assert.match(byLayer, /\n0 gdn +1 .*\n1 attention +2 /);
  const byRecord = profileTable(await profile(6000), "record", plain);
  assert.match(byRecord, /\n0 +embed__f32 +ends .*\n1 +\| +gemv__f32 +0 gdn /);
  assert.match(byRecord, /gap -0\.1 us \(-1\.7 %\): records timed apart take longer/);
});
