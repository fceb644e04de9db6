/** Every figure of a row, from scripted times and a clock that only they move. */
import assert from "node:assert/strict";
import { statsOf } from "../../bench/figures.ts";
import { cellsOf } from "../../bench/grid.ts";
import type { Row, Spec } from "../../bench/report.ts";
import { rowSchema } from "../../bench/report.ts";
import { sweep, type SweepOptions } from "../../bench/sweep.ts";
import * as v from "valibot";
import { FakeRig, type Script } from "./fake_rig.ts";
import { specWith } from "./spec.ts";

const MS = 1e6;

async function measure(
  given: Partial<Spec>,
  script: Script = {},
  more: Partial<SweepOptions> = {},
) {
  const spec = specWith(given), rig = new FakeRig(script), cells = cellsOf(spec);
  const shared = { checkRows: 17, battery: false, dirtyBuild: false };
  const result = await sweep({ spec, cells, rig, ...shared, ...more });
  for (const row of result.rows) v.parse(rowSchema, row);
  return { ...result, rig, row: (id: string) => result.rows.find((r) => r.id === id)! };
}

function near(got: number | null | undefined, want: number, what: string): void {
  assert(
    typeof got === "number" && Math.abs(got / want - 1) < 1e-12,
    `${what}: ${got}, not ${want}`,
  );
}

Deno.test("decode: the rate is steps over the time of exactly those steps", async () => {
  // A run's own factor, and a first half that is slower than the second.
  const factor = [5, 1, 1.1, 0.9, 1.2, 0.8];
  const { row, rig } = await measure({ n_gen: [128] }, {
    stepNs: (pos, run) => factor[run] * (pos < 32 ? 2 : 1) * MS,
  });
  const r = row("decode128@d0"), base = 32 * 2 + 96;
  assert.deepEqual(r.warmup_ns, [5 * base * MS]);
  assert.deepEqual(r.samples_ns, factor.slice(1).map((f) => Math.round(f * base * MS)));
  near(r.stats?.median_tps, 128 / (base * 1e-3), "median");
  near(r.stats?.min, 128 / (1.2 * base * 1e-3), "min");
  near(r.stats?.max, 128 / (0.8 * base * 1e-3), "max");
  near(r.stats?.first32_tps, 500, "first 32");
  near(r.stats?.last32_tps, 1000, "last 32");
  near(r.stats?.steady_tps, 1000, "steady");
  assert.equal(r.ttft_ns, null);
  assert.deepEqual(r.order_index, [0, 1, 2, 3, 4]);
  assert.deepEqual(r.calls?.tokens, [32, 32, 32, 32]);
  assert.equal(r.calls?.ns[0][0], 64 * MS);
  // Filling, going back and the anchor take time of their own, none of which is in a sample.
  assert.equal(r.started_offset_ns[1] - r.started_offset_ns[0], base * MS + 3 * MS);
  assert(rig.engines[0].disposed);
});

Deno.test("prompt_decode: the first token is time to first token and in no rate", async () => {
  const { row } = await measure({ prompt_gen: [[100, 11]], repetitions: 3 }, {
    promptNs: () => 700 * MS,
    stepNs: () => 20 * MS,
  });
  const r = row("prompt_decode100+11@d0");
  assert.equal(r.ttft_ns, 700 * MS);
  assert.deepEqual(r.parts, {
    prefill_ns: [700 * MS, 700 * MS, 700 * MS],
    decode_ns: [200 * MS, 200 * MS, 200 * MS],
    decode_intervals: 10,
  });
  assert.deepEqual(r.samples_ns, [900 * MS, 900 * MS, 900 * MS]);
  assert.equal(r.tokens_per_sample, 111);
  near(r.stats?.median_tps, 50, "rate of the gaps");
  const single = (await measure({ prompt_gen: [[100, 1]], repetitions: 1 })).rows[0];
  assert.equal(single.stats?.median_tps, null);
  assert.equal(single.absent["stats.median_tps"], "no time was measured");
});

Deno.test("prefill: tokens over time, and the tokens that make its digest are untimed", async () => {
  const { row, rig } = await measure({ n_prompt: [512], n_depth: [4096] }, {
    promptNs: (tokens) => tokens * 50_000,
    stepNs: () => 999 * MS,
  });
  const r = row("prefill512@d4096");
  near(r.stats?.median_tps, 20_000, "rate");
  assert.equal(r.ttft_ns, 25.6 * MS);
  assert.equal(r.params.n_depth, 4096);
  assert(rig.engines[0].calls.includes("fill 4096"));
  assert(rig.engines[0].calls.includes("decode 15"));
});

Deno.test("a long prompt is warmed up by its beginning and kept for what follows", async () => {
  const { row, rig } = await measure({ long: [32768, 64] });
  const prefill = row("prefill32768@d0");
  assert.equal(prefill.samples_ns.length, 1);
  assert.equal(prefill.warmup_tokens, 1024);
  assert.deepEqual(prefill.warmup_ns, [1024 * 10_000]);
  assert.equal(prefill.check.repeatable, null);
  assert.equal(prefill.stats?.ci95, null);
  assert.equal(rig.engines.length, 1);
  assert(rig.engines[0].calls.includes("keepAhead"));
  assert.match(row("decode64@d32768").absent.quality, /beyond the 8192/);
});

Deno.test("token times: one call a token, and the same figures", async () => {
  const { row } = await measure({ n_gen: [70], token_times: true, repetitions: 2 }, {
    stepNs: (pos) => (pos + 1) * 1000,
  });
  const r = row("decode70@d0");
  assert.equal(r.calls, null);
  assert.deepEqual(r.per_token_ns![0], Array.from({ length: 70 }, (_, i) => (i + 1) * 1000));
  assert.equal(r.samples_ns[0], 70 * 71 / 2 * 1000);
  near(r.stats?.first32_tps, 32e9 / (32 * 33 / 2 * 1000), "first 32");
});

Deno.test("the limit: bytes a token, share and time lost; more than all fails the row", async () => {
  const cost = { weights: 8e6, kv: 1.5e6, state: 0.5e6, flops: 3e6, playBytes: 1e7 };
  const { row } = await measure({ n_gen: [64] }, { cost, bandwidth: 20e9, stepNs: () => MS });
  const { limit } = row("decode64@d0");
  near(limit?.gb_s, 10, "GB/s");
  near(limit?.tps_limit, 2000, "limit");
  near(limit?.pct_of_measured_bw, 50, "share");
  near(limit?.ms_lost_per_token, 0.5, "lost");
  assert.equal(limit?.working_set_bytes, 1e7);
  const over = await measure({ n_gen: [64], n_prompt: [64] }, { cost, bandwidth: 9.9e9 });
  const bad = over.row("decode64@d0");
  assert.equal(bad.status, "error");
  assert.match(bad.error!, /^101\.0 % of the measured bandwidth/);
});

Deno.test("samples: at least so many, and as long as was asked for", async () => {
  const { row } = await measure({ n_gen: [10], repetitions: 2, min_time_ns: 95 * MS, warmup: 3 });
  const r = row("decode10@d0");
  assert.equal(r.samples_ns.length, 10);
  assert.equal(r.warmup_ns.length, 3);
});

Deno.test("checks: other tokens in a repetition, or in another form, fail the row's check", async () => {
  const flaky = await measure({ n_gen: [8] }, { output: (run) => run === 4 ? "!" : "" });
  assert.equal(flaky.rows[0].status, "ok");
  assert.equal(flaky.rows[0].check.repeatable, false);
  assert.equal(flaky.rows[0].check.ok, false);
  const form = { ok: false, matched: 12, firstDivergence: 12, maxLogitNmse: 0.4 };
  const { check } = (await measure({ n_gen: [8] }, { form })).rows[0];
  assert.deepEqual(
    { ...check, output_sha256: null },
    {
      output_sha256: null,
      reference: "one_row",
      compared_tokens: 17,
      matched_tokens: 12,
      first_divergence: 12,
      max_logit_nmse: 0.4,
      rounding_nmse: null,
      routing_match: null,
      repeatable: true,
      ok: false,
    },
  );
});

Deno.test("a cell that does not fit is an error row, and the others are measured", async () => {
  const spec = { n_gen: [8], n_prompt: [16, 900_000, 32] };
  const refuse = (_: unknown, ctx: number) => ctx > 100_000 ? `no room for ${ctx}` : null;
  const { rows, row, rig } = await measure(spec, { refuse, bandwidth: 1e12 });
  assert.deepEqual(rows.map((r) => r.status), ["ok", "error", "ok", "ok"]);
  assert.match(row("prefill900000@d0").error!, /no room for/);
  assert.equal(rows[1].stats, null);
  assert(rig.engines.every((e) => e.disposed));
  const broken = await measure({ n_gen: [8, 16, 24] }, {
    onRun: (run) => {
      if (run === 7) throw new Error("device lost\nand more");
    },
  });
  assert.deepEqual(broken.rows.map((r) => r.error), [undefined, "device lost", undefined]);
});

Deno.test("an interrupted sweep keeps what is whole; the next one begins there", async () => {
  const controller = new AbortController();
  const spec = { n_gen: [8, 16, 24] };
  const seen: (string | null)[] = [];
  const first = await measure(spec, {
    onRun: (run) => {
      if (run === 9) controller.abort();
    },
  }, {
    signal: controller.signal,
    onRows: (rows, running) => {
      seen.push(`${rows.length}${running ? ` ${running.id} ${running.status}` : ""}`);
      return Promise.resolve();
    },
  });
  assert(first.interrupted);
  assert.deepEqual(first.rows.map((r) => r.id), ["decode8@d0"]);
  assert.deepEqual(seen, [
    "0 decode8@d0 error",
    "1",
    "1 decode16@d0 error",
    "1",
  ]);
  const known = new Map(first.rows.map((r) => [r.id, r]));
  const second = await measure(spec, {}, { known });
  assert(!second.interrupted);
  assert.deepEqual(second.rows.map((r) => r.id), ["decode8@d0", "decode16@d0", "decode24@d0"]);
  assert.equal(second.rows[0], first.rows[0]);
});

Deno.test("progress: remaining time follows what was measured", async () => {
  const left: (number | null)[] = [];
  await measure({ n_gen: [100, 101, 102] }, {}, {
    onProgress: (p) => void (p.stage === "done" && left.push(p.remainingNs)),
  });
  assert.equal(left.length, 3);
  assert(left[0]! > left[1]! && left[1]! > 0 && left[2] === 0);
});

Deno.test("energy: joules of the timed stretches alone", async () => {
  const { row } = await measure({ n_gen: [50], repetitions: 4 }, {
    watts: 30,
    stepNs: () => 2 * MS,
  });
  const { energy } = row("decode50@d0");
  near(energy?.joules, 4 * 0.1 * 30, "joules");
  near(energy?.j_per_token, 0.06, "per token");
  near(energy?.avg_w, 30, "watts");
  const none = (await measure({ n_gen: [8] })).rows[0];
  assert.equal(none.energy, null);
  assert.equal(none.absent.energy, "a fake has no meter");
});

Deno.test("energy: a meter that dies takes no row with it", async () => {
  const { rows } = await measure({ n_gen: [50, 60], repetitions: 4 }, {
    watts: 30,
    stepNs: () => 2 * MS,
    meterDiesNs: 1200 * MS,
  });
  const [whole, cut] = rows;
  near(whole.energy?.avg_w, 30, "watts");
  assert.equal(cut.status, "ok");
  assert.deepEqual([cut.energy, cut.absent.energy], [null, "the meter died"]);
});

Deno.test("experts: distinct ones of a play, and the busiest", async () => {
  const routing = { sampledTokens: 512, imbalance: 1.5, distinct: (rows: number) => 8 * rows };
  const { row } = await measure({ n_gen: [8], n_prompt: [4] }, { routing });
  assert.deepEqual(row("decode8@d0").moe, {
    distinct_experts_mean: 8,
    imbalance: 1.5,
    sampled_tokens: 512,
  });
  assert.equal(row("prefill4@d0").moe?.distinct_experts_mean, 32);
});

Deno.test("load and perplexity: times without a limit", async () => {
  const perplexity = { file: "x", window: 10, tokens: null };
  const { row } = await measure({ load: true, perplexity, repetitions: 3 }, {
    loadNs: (n) => n === 0 ? 9e9 : 1e9 + n,
  });
  const load = row("load"), text = row("perplexity");
  assert.deepEqual(load.warmup_ns, [9e9]);
  assert.deepEqual(load.samples_ns, [1e9 + 1, 1e9 + 2, 1e9 + 3]);
  assert.equal(load.stats?.median_ns, 1e9 + 2);
  assert.equal(load.stats?.median_tps, null);
  near(text.stats?.median_tps, 250, "predictions a second");
  assert.equal(text.quality?.predictions, 1000);
  assert.equal(text.check.ok, true);
  assert.equal(load.check.ok, true);
  assert.equal(load.copy, null);
  assert.match(load.absent.copy, /^files are used where they lie/);
  const copied = (n: number) => ({ bytes: 8e9, ns: [9, 1, 4, 2][n] * 1e9 });
  const copies = async (upload?: number) =>
    (await measure({ load: true, repetitions: 3 }, { copied, upload })).rows[0];
  const rates = { bytes: 8e9, ns: [1e9, 4e9, 2e9], gb_s: 4 };
  const unknown = (await copies()).copy;
  assert.deepEqual(unknown, { ...rates, limit_gb_s: null, pct_of_limit: null });
  const held = await copies(5e9);
  assert.deepEqual([held.status, held.check.ok], ["ok", true]);
  assert.deepEqual(held.copy, { ...rates, limit_gb_s: 5, pct_of_limit: 80 });
  const tooFast = await copies(3.2e9);
  assert.equal(tooFast.status, "error");
  assert.match(tooFast.error!, /^125\.0 % of what pinned memory is copied at: .* counted wrongly$/);
  const other = await measure({ load: true }, { weights: (n) => String(n > 3) });
  assert.equal(other.rows[0].check.ok, false);
});

async function reasonsOf(
  script: Script,
  more: Partial<SweepOptions> = {},
  spec: Partial<Spec> = {},
) {
  const { rows } = await measure({ n_gen: [8], repetitions: 8, ...spec }, script, more);
  return rows[0].validity;
}

Deno.test("validity: each reason by itself", async () => {
  const ok = { verdict: "valid", reasons: [] };
  const suspect = (reason: string) => ({ verdict: "suspect", reasons: [reason] });
  assert.deepEqual(await reasonsOf({}), ok);
  assert.deepEqual(await reasonsOf({}, { battery: true }), suspect("battery"));
  assert.deepEqual(await reasonsOf({}, { dirtyBuild: true }), suspect("dirty_build"));
  const slowFirst = await reasonsOf({ stepNs: (_, run) => run === 1 ? 1.2 * MS : MS });
  assert(slowFirst.reasons.includes("first_sample_slow"));
  const drifting = await reasonsOf({ stepNs: (_, run) => MS * (1 + run / 100) });
  assert.deepEqual(drifting, suspect("thermal_drift"));
  const noisy = await reasonsOf({
    stepNs: (_, run) => run === 5 ? 9 * MS : MS * (1 + run % 3 / 1e4),
  });
  assert.deepEqual(noisy, suspect("outliers"));
  assert.deepEqual(await reasonsOf({ readings: (n) => ({ swappedPages: n }) }), suspect("swap"));
  assert.deepEqual(
    await reasonsOf({ readings: (n) => ({ foreignCpuNs: n * 1e9 }) }),
    suspect("contention"),
  );
  const coarse = await reasonsOf({ stepNs: () => 100 });
  assert.deepEqual(coarse, { verdict: "invalid", reasons: ["clock_coarse"] });
});

Deno.test("every summary can be computed again from the raw times", async () => {
  const random = (pos: number, run: number) => MS * (1 + (pos * 7919 + run * 104729) % 97 / 500);
  const spec = {
    n_gen: [128],
    n_prompt: [64],
    prompt_gen: [[64, 40]] as [number, number][],
    load: true,
  };
  const { rows } = await measure(spec, {
    stepNs: random,
    promptNs: (n, run) => random(n, run) * n,
  });
  const again = JSON.parse(JSON.stringify(rows)) as Row[];
  for (const row of again) assert.deepEqual(statsOf(row), row.stats, row.id);
});
