/** Comparison sessions on a scripted machine: error rates over many seeds, and what becomes of each failure. */
import assert from "node:assert/strict";
import { compareSession, judgeOptions } from "../../bench/compare.ts";
import type { CompareSettings, Comparison } from "../../bench/compare_report.ts";
import { inspectLibrary } from "../../bench/libraries.ts";
import { logRatios, markRejected, type PairRecord, rejectedShare } from "../../bench/pairs.ts";
import { holm, normalQuantile, randomFrom } from "../../bench/stats.ts";
import {
  isSlowed,
  nvidiaDisturbance,
  pageOutsOfProc,
  pageOutsOfVmStat,
} from "../../bench/surroundings.ts";
import { estimate, judge, lookSchedule, type Outcome } from "../../bench/verdict.ts";
import { comparisonVerdict, rowLine } from "../../bench/verdict_line.ts";
import { DECODE, type Drift, machine, type Script, settings } from "./scripted.ts";

/** Simulations need outcomes, not digits. */
const QUICK = { resamples: 2000 };

async function session(script: Script = {}, given: Partial<CompareSettings> = {}) {
  const m = machine(script);
  const result = await compareSession(
    m.base,
    m.head,
    [DECODE],
    settings({ ...QUICK, ...given }),
    m,
  );
  return { m, ...result, row: result.rows[0] };
}

async function outcomes(seeds: number, script: (seed: number) => Script) {
  const counts: Record<Outcome, number> = { pass: 0, fail: 0, inconclusive: 0 };
  for (let seed = 1; seed <= seeds; seed++) {
    const { row } = await session({ seed, ...script(seed) }, { seed });
    counts[row.outcome as Outcome]++;
  }
  return counts;
}

const DRIFTS: readonly Drift[] = ["none", "ar", "thermal"];

for (const drift of DRIFTS) {
  Deno.test(`no change, drift ${drift}: at most 1 % of 400 sessions fail`, async () => {
    const counts = await outcomes(400, () => ({ drift }));
    assert.ok(counts.fail <= 4, JSON.stringify(counts));
    assert.ok(counts.pass >= 280, JSON.stringify(counts));
  });

  Deno.test(`5 % slower, drift ${drift}: at least 95 % of sessions fail, none passes`, async () => {
    const counts = await outcomes(200, () => ({ drift, head: 0.95 }));
    assert.ok(counts.fail >= 190, JSON.stringify(counts));
    assert.equal(counts.pass, 0);
  });

  Deno.test(`1.5 % slower, tolerance 2 %, drift ${drift}: at most 5 % fail`, async () => {
    const counts = await outcomes(200, () => ({ drift, head: 0.985 }));
    assert.ok(counts.fail <= 10, JSON.stringify(counts));
  });
}

Deno.test("no change on a machine whose anchor drifts too: never more than 1 % fail", async () => {
  const counts = await outcomes(200, (seed) => ({
    drift: seed % 2 ? "ar" : "thermal",
    anchorDrifts: true,
  }));
  assert.ok(counts.fail <= 2, JSON.stringify(counts));
});

Deno.test("two speeds of the machine, 10 % apart: no change does not fail, 20 % slower does", async () => {
  const same = await outcomes(200, () => ({ bimodal: 0.1 }));
  assert.ok(same.fail <= 2, JSON.stringify(same));
  const slower = await outcomes(50, () => ({ bimodal: 0.1, head: 0.8 }));
  assert.ok(slower.fail >= 45 && slower.pass === 0, JSON.stringify(slower));
});

Deno.test("one sample of ten times the length leaves the verdict", async () => {
  for (const head of [1, 0.95]) {
    const plain = await session({ head, hits: 0 });
    for (const nth of [24, 31, 40]) {
      const bend = (ns: number, n: number) => n === nth ? 10 * ns : ns;
      const hit = await session({ head, hits: 0, bend });
      assert.equal(hit.row.outcome, plain.row.outcome);
    }
  }
});

Deno.test("three samples are inconclusive, whatever they say", () => {
  const options = judgeOptions(settings({ looks: [3] }), 1);
  for (const logs of [[-0.5, -0.5, -0.5], [0, 0, 0], [-0.5, -0.49, -0.51]]) {
    assert.equal(judge(estimate(logs, options), options).outcome, "inconclusive");
  }
  assert.equal(judge(estimate([], options), options).outcome, "inconclusive");
});

Deno.test("sides run A B B A behind anchors; random order is random and repeatable", async () => {
  const { m, row } = await session({}, { pairs: 8, min_pairs: 8, looks: [8] });
  const from = m.events.indexOf("anchor");
  const block = ["anchor", "base", "head", "anchor", "head", "base"];
  assert.deepEqual(m.events.slice(from), [block, block, block, block].flat());
  assert.deepEqual(row.pairs.map((p) => p.order).join(), "AB,BA,AB,BA,AB,BA,AB,BA");
  const random = { pairs: 40, min_pairs: 40, looks: [40], order: "random" as const };
  const orders = (await session({}, random)).row.pairs.map((p) => p.order).join();
  assert.equal((await session({}, random)).row.pairs.map((p) => p.order).join(), orders);
  assert.match(orders, /BA,AB/);
  assert.match(orders, /AB,BA/);
});

Deno.test("samples are as long as the suite demands", async () => {
  const { row } = await session({});
  for (const p of row.pairs) {
    assert.ok(p.base_ns >= DECODE.sampleNsMin && p.steps >= DECODE.stepsMin);
    assert.ok(p.base_ns < 4 * DECODE.sampleNsMin);
  }
});

Deno.test("settling: a calm machine settles at once, a drifting one is marked", async () => {
  const calm = await session({ noise: 0.001, hits: 0 });
  assert.equal(calm.row.settling!.settled, true);
  assert.ok(calm.row.settling!.pairs <= 6);
  // A machine that loses a percent with every sample.
  const bend = (ns: number, nth: number) => ns * 1.01 ** nth;
  const falling = await session({ noise: 0.0001, hits: 0, bend });
  assert.equal(falling.row.settling!.settled, false);
  assert.ok(falling.row.settling!.pairs <= 10);
});

Deno.test("looks: fixed beforehand, paid for, and the last one is the number of pairs", () => {
  assert.deepEqual(lookSchedule(6, 20), [6, 10, 16, 20]);
  assert.deepEqual(lookSchedule(6, 40), [6, 10, 16, 24, 40]);
  assert.deepEqual(lookSchedule(20, 20), [20]);
  const logs = Array.from({ length: 20 }, (_, i) => -0.03 + 0.001 * (i % 7));
  const once = estimate(logs, { ...judgeOptions(settings(), 1), looks: 1 })!;
  const often = estimate(logs, { ...judgeOptions(settings(), 1), looks: 5 })!;
  assert.ok(often.ci[1] - often.ci[0] >= once.ci[1] - once.ci[0]);
  assert.ok(often.p_slower > once.p_slower);
});

Deno.test("a session stops at the look that decides, and noise is measured in full", async () => {
  const clear = await session({ head: 0.8, hits: 0 });
  assert.equal(clear.row.outcome, "fail");
  assert.equal(clear.row.pairs.length, 10);
  const aa = await session({}, { aa: true, looks: [20] });
  assert.equal(aa.row.pairs.length, 20);
});

Deno.test("the same seed gives the same estimate, digit for digit", async () => {
  const a = await session({ seed: 5, drift: "ar" }), b = await session({ seed: 5, drift: "ar" });
  assert.deepEqual(a.row.estimate, b.row.estimate);
});

Deno.test("twenty rows at the very edge of the tolerance: a family fails at most 5 % of the time", () => {
  const options = { ...judgeOptions(settings(), 1), resamples: 4000, looks: 1 };
  let families = 0;
  for (let family = 0; family < 200; family++) {
    const random = randomFrom(family + 1);
    const rows = Array.from({ length: 20 }, (_, row) => {
      const logs = Array.from(
        { length: 20 },
        () => Math.log(0.98) + 0.011 * normalQuantile(random() || 0.5),
      );
      return estimate(logs, { ...options, seed: row })!;
    });
    const corrected = holm(rows.map((e) => e.p_slower));
    if (rows.some((e, i) => judge(e, options, corrected[i]).outcome === "fail")) families++;
  }
  assert.ok(families <= 10, `${families} of 200 families have a false failure`);
});

Deno.test("a time budget ends a row with what it has", async () => {
  const { row, m } = await session({ noise: 0.03 }, { max_seconds: 9 });
  assert.equal(row.outcome, "inconclusive");
  assert.ok(row.pairs.length < 20 && m.seconds() < 12);
});

Deno.test("rejection: anchor, throttling, page-outs, GPU contention; partners go too", async () => {
  const anchor = (nth: number) => nth === 6 ? 0.9e10 : 1e10;
  // The anchor is tried again in pauses: one bad reading passes.
  const passing = await session({ anchor }, { aa: true, looks: [20] });
  assert.equal(passing.session.rejected, 0);
  assert.equal(passing.row.pairs[6].anchor_pauses, 1);
  const staying = await session(
    { anchor: (nth) => nth >= 6 && nth < 14 ? 0.9e10 : 1e10 },
    { aa: true, looks: [20] },
  );
  const reasons = staying.row.pairs.map((p) => p.rejected);
  assert.deepEqual(reasons.slice(6, 8), ["anchor_off", "anchor_off"]);
  assert.equal(logRatios(staying.row.pairs).length, 20);
  const signs: [Partial<PairRecord["disturbance"]>, string][] = [
    [{ throttled: true }, "throttled"],
    [{ page_outs: 3 }, "page_outs"],
    [{ gpu_contended: true }, "gpu_contention"],
  ];
  const calm = { throttled: false, page_outs: 0, gpu_contended: false };
  const pair = passing.row.pairs[0];
  for (const [sign, reason] of signs) {
    const marked = markRejected(
      [{ ...pair, disturbance: { ...calm, ...sign } }, { ...pair, index: 1, order: "BA" }],
      pair.anchor,
    );
    assert.deepEqual(marked.map((p) => p.rejected), [reason, "partner_rejected"]);
    assert.equal(rejectedShare(marked), 0.5);
  }
});

Deno.test("more than a quarter rejected: the session proves nothing, and says so", async () => {
  const { session: s, row, rows } = await session({
    head: 0.8,
    disturbance: (n) => ({ throttled: n % 8 < 4, page_outs: 0, gpu_contended: null }),
  });
  assert.equal(s.valid, false);
  assert.match(s.reasons[0], /pairs rejected \(throttled\)/);
  assert.equal(row.outcome, "inconclusive");
  assert.equal(comparisonVerdict({ session: s, rows } as Comparison), "environment");
});

Deno.test("changed output: nothing is timed; with a reason it is", async () => {
  const changed = { outputs: (side: string) => side };
  const refused = await session(changed);
  assert.equal(refused.row.outcome, "incomparable");
  assert.equal(refused.m.log.length, 0);
  assert.equal(comparisonVerdict(refused as unknown as Comparison), "output_changed");
  const allowed = await session(changed, { output_change: "new rounding" });
  assert.equal(allowed.row.outcome, "pass");
  const inRow = await session({ digest: (side) => side });
  assert.equal(inRow.row.outcome, "incomparable");
  assert.equal(inRow.row.pairs.length, 0);
});

Deno.test("a side that contradicts itself is not comparable, reason or not", async () => {
  const digest = (_side: string, nth: number) => nth === 30 ? "other" : "same";
  const { row } = await session({ digest }, { output_change: "new rounding" });
  assert.equal(row.outcome, "incomparable");
  assert.match(row.why, /made other tokens/);
});

Deno.test("a crash is an error row with what was measured; the next row goes on", async () => {
  const m = machine({ crash: (side, nth, w) => side === "head" && nth > 30 && w.depth === 0 });
  const deep = { ...DECODE, id: "decode128@d2048", depth: 2048 };
  const result = await compareSession(m.base, m.head, [DECODE, deep], settings(QUICK), m);
  const [crashed, fine] = result.rows;
  assert.equal(crashed.status, "error");
  assert.match(crashed.error!, /^head: died of SIGSEGV$/);
  assert.ok(crashed.pairs.length >= 0);
  assert.equal(fine.outcome, "pass");
  assert.equal(comparisonVerdict(result as unknown as Comparison), "errors");
  assert.equal(rowLine(crashed, settings()), "ERROR decode128@d0: head: died of SIGSEGV");
});

Deno.test("a sample of no time has no rate: an error row, not a wonder", async () => {
  const { row } = await session({ bend: (ns, nth) => nth === 25 ? 0 : ns });
  assert.equal(row.outcome, "error");
  assert.match(row.error!, /there is no rate/);
});

Deno.test("an interruption keeps the pairs so far and says so", async () => {
  const controller = new AbortController();
  const anchor = (nth: number) => {
    if (nth === 7) controller.abort();
    return 1e10;
  };
  const { row, rows, session: s } = await session(
    { noise: 0.03, anchor, signal: controller.signal },
  );
  assert.equal(row.pairs.length, 8);
  assert.match(row.why, /^interrupted/);
  assert.equal(comparisonVerdict({ session: s, rows } as Comparison), "interrupted");
});

Deno.test("sanitised and debug builds are refused; an unknown one is only mentioned", () => {
  const file = (text: string) => new TextEncoder().encode(`\x7fELF\0${text}\0`);
  assert.throws(() => inspectLibrary(file("__asan_init"), "a.so"), /address sanitizer/);
  assert.throws(() => inspectLibrary(file("GNU C++17 12.2.0 -O0 -g"), "a.so"), /debug build/);
  assert.throws(() => inspectLibrary(file("GNU C++17 12.2.0 -g1 -fPIC"), "a.so"), /debug build/);
  assert.deepEqual(inspectLibrary(file("GNU C++17 12.2.0 -mavx2 -O3 -g1"), "a.so"), []);
  assert.equal(inspectLibrary(file("stripped"), "a.so").length, 1);
});

Deno.test("disturbances are read from what systems print", () => {
  assert.equal(pageOutsOfProc("pswpin 3\npswpout 42\n"), 42);
  assert.equal(pageOutsOfProc(""), null);
  assert.equal(pageOutsOfVmStat("Swapins: 0.\nSwapouts:  17.\n"), 17);
  assert.equal(isSlowed("CPU_Speed_Limit \t= 62\n"), true);
  assert.equal(isSlowed("CPU_Speed_Limit = 100"), false);
  assert.equal(isSlowed("Note: No thermal warning"), null);
  const idle = "0x0000000000000001\n", hot = "0x0000000000000020\n";
  assert.deepEqual(nvidiaDisturbance(idle, "1\n2\n"), { throttled: false, contended: false });
  assert.deepEqual(nvidiaDisturbance(hot, "1\n2\n3\n"), { throttled: true, contended: true });
});
