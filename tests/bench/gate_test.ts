/** Gates over made-up documents: every verdict, every exit code, and what is shown of them. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { accept, type Baseline, cumulativeChange } from "../../bench/baseline.ts";
import { compareSchema, type Comparison } from "../../bench/compare_report.ts";
import { runGate } from "../../bench/gate.ts";
import { type HistoryPoint, rowsOfReport } from "../../bench/gate_documents.ts";
import type { GateInput } from "../../bench/gate_result.ts";
import { gateLines } from "../../bench/gate_text.ts";
import { matches, parsePolicy } from "../../bench/policy.ts";
import { type Report, reportSchema } from "../../bench/report.ts";
import { compareStored } from "../../bench/stored.ts";
import { comparison, environment, rates, report, row } from "./documents.ts";
import { settings } from "./scripted.ts";

const NOW = new Date("2026-11-30T12:00:00Z");
const PAIRED = { match: "decode*", mode: "paired", tolerance: "2%" };
const SLOW = { head: 0.95 };

function policy(rows: readonly unknown[], rest: object = {}) {
  return parsePolicy(JSON.stringify({ rows, ...rest }), "gate.json");
}

interface Given {
  readonly rules?: readonly unknown[];
  readonly policy?: object;
  readonly reports?: readonly Report[];
  readonly comparisons?: readonly Comparison[];
  readonly baselines?: readonly Baseline[];
  readonly history?: readonly HistoryPoint[];
}

function judge(given: Given) {
  const input: GateInput = {
    policy: policy(given.rules ?? [PAIRED], given.policy),
    reports: given.reports ?? [],
    comparisons: given.comparisons ?? [],
    baselines: given.baselines ?? [],
    history: given.history ?? [],
    now: NOW,
  };
  return runGate(input);
}

async function paired(script: object = {}, rest: object = {}, given: Given = {}) {
  return judge({ ...given, comparisons: [await comparison({ script, ...rest })] });
}

Deno.test("the documents of these tests are valid", async () => {
  v.parse(compareSchema, await comparison());
  v.parse(reportSchema, report([row("decode128@d0", rates(100))]));
});

Deno.test("paired: pass, fail and inconclusive, and the first line says it", async () => {
  const pass = await paired();
  assert.equal(pass.verdict, "pass");
  const fail = await paired(SLOW);
  assert.equal(fail.verdict, "regression");
  assert.match(
    gateLines(fail)[0],
    /^FAIL decode128@d0: 0\.95\dx \(95% CI 0\.9\d\d\.\.0\.9\d\d, \d+ pairs, tol 2%, MDE 0\.\d%\)$/,
  );
  const open = await paired({ head: 0.98, noise: 0.02 });
  assert.equal(open.verdict, "inconclusive");
  assert.match(gateLines(open)[0], /^INCONCLUSIVE decode128@d0: .*: the interval contains/);
});

Deno.test("the policy's tolerance decides, not the comparison's", async () => {
  const rules = [{ ...PAIRED, tolerance: "10%" }];
  assert.equal((await paired(SLOW, {}, { rules })).verdict, "pass");
});

Deno.test("nothing that is missing, broken, changed or measured elsewhere passes", async () => {
  const cases: [string, Awaited<ReturnType<typeof paired>>][] = [
    ["errors", judge({})],
    ["errors", await paired({}, {}, { rules: [{ match: "prefill*" }] })],
    ["errors", await paired({ crash: () => true })],
    ["errors", await paired({ bend: (ns: number, nth: number) => nth === 25 ? 0 : ns })],
    ["errors", await paired({}, { settings: { aa: true, looks: [20] } })],
    ["output_changed", await paired({ outputs: (side: string) => side })],
    ["environment", await paired({}, {}, { policy: { env: { cpu: "M5*" } } })],
    ["environment", await paired({ disturbance: (n: number) => ({ throttled: n % 2 === 1 }) })],
  ];
  for (const [verdict, result] of cases) assert.equal(result.verdict, verdict);
  assert.match(gateLines(judge({}))[0], /^MISSING decode\*: no comparison has a row/);
});

Deno.test("report rows: errors, skipped, failed checks and invalid rows never pass", () => {
  const limit = [{ match: "decode*", metric: "dispatch.records", max: 320 }];
  const gate = (given: object) =>
    judge({ rules: limit, reports: [report([row("decode128@d0", rates(100), given)])] }).verdict;
  const check = { ...row("decode128@d0", rates(100)).check, ok: false };
  assert.equal(gate({}), "pass");
  assert.equal(gate({ status: "error", error: "no" }), "errors");
  assert.equal(gate({ status: "skipped" }), "errors");
  assert.equal(gate({ check }), "output_changed");
  assert.equal(gate({ validity: { verdict: "invalid", reasons: ["swap"] } }), "environment");
  assert.equal(gate({ dispatch: null }), "errors");
});

Deno.test("budgets: a count above its maximum fails", () => {
  const rules = [{ match: "decode*", metric: "dispatch.records", max: 300 }];
  const result = judge({ rules, reports: [report([row("decode128@d0", rates(100))])] });
  assert.equal(result.verdict, "regression");
  assert.equal(gateLines(result)[0], "FAIL decode128@d0: dispatch.records 310, at most 300");
});

Deno.test("floor: fails only when surely below, and is silent elsewhere", () => {
  const gate = (floor: object, center: number, required = true) =>
    judge({
      rules: [{ match: "decode*", min_tps: floor, required }],
      reports: [report([row("decode128@d0", rates(center))])],
    });
  assert.equal(gate({ "CPU 9000": 90 }, 100).verdict, "pass");
  assert.equal(gate({ "CPU 9000": 110 }, 100).verdict, "regression");
  assert.equal(gate({ "CPU 9000": 100 }, 100).verdict, "inconclusive");
  assert.equal(gate({ "M5 Max": 120 }, 100).verdict, "environment");
  assert.equal(gate({ "M5 Max": 120 }, 100, false).verdict, "pass");
  assert.equal(gate({ "CPU 9000": 1 }, 0).verdict, "errors");
  const quiet = judge({
    rules: [{ match: "decode*", min_tps: { "CPU 9000": 110 } }],
    reports: [report([row("decode128@d0", rates(100))])],
  });
  assert.equal(quiet.verdict, "pass");
  assert.match(gateLines(quiet)[0], /^FAIL .* \(does not block\)$/);
});

function history(values: readonly number[], fingerprint?: string): HistoryPoint[] {
  const [{ fingerprint: own }] = rowsOfReport(report([row("decode128@d0", rates(1))]));
  return values.map((value, i) => ({
    at: new Date(NOW.getTime() - (values.length - i) * 86_400_000).toISOString(),
    fingerprint: fingerprint ?? own,
    value: () => value,
  }));
}

Deno.test("history: the first point outside asks for a comparison, the second fails", () => {
  const gate = (values: readonly number[], now: number, fingerprint?: string) =>
    judge({
      rules: [{ match: "decode*", mode: "history", required: true }],
      reports: [report([row("decode128@d0", rates(now))])],
      history: history(values, fingerprint),
    });
  const calm = [100, 101, 99, 100, 102, 98, 100];
  assert.equal(gate(calm, 99).verdict, "pass");
  const first = gate(calm, 85);
  assert.equal(first.verdict, "inconclusive");
  assert.match(gateLines(first)[0], /for the first time: compare with the base now$/);
  assert.equal(gate([...calm, 86], 85).verdict, "regression");
  assert.equal(gate([100, 100], 50).verdict, "inconclusive");
  assert.equal(gate(calm, 85, "other").verdict, "environment");
  // Faster is no reason to stop.
  assert.equal(gate(calm, 150).verdict, "pass");
});

Deno.test("a loss that convinces alone must convince among twenty rows", async () => {
  const short = { pairs: 10, min_pairs: 10, looks: [10, 10, 10, 10] };
  const slow = await comparison({ script: SLOW, settings: short });
  assert.equal(judge({ comparisons: [slow] }).verdict, "regression");
  const calm = await comparison({ settings: short });
  const others = Array.from(
    { length: 19 },
    (_, i) => ({ ...calm.rows[0], id: `decode128@d${i + 1}` }),
  );
  const crowd = judge({ comparisons: [{ ...slow, rows: [...slow.rows, ...others] }] });
  assert.equal(crowd.verdict, "inconclusive");
  assert.match(gateLines(crowd)[0], /^INCONCLUSIVE decode128@d0: .* not beyond chance among/);
});

Deno.test("a tolerance finer than twice the noise is refused", async () => {
  const noise = [{ id: "decode128@d0", pairs: 20, sigma: 0.01, half_width: 0.012 }];
  const one = await comparison({ noise });
  assert.throws(
    () => judge({ comparisons: [one] }),
    /finer than this machine can tell.*at least 2\.4%/,
  );
  assert.equal(
    judge({ comparisons: [one], rules: [{ ...PAIRED, tolerance: "3%" }] }).verdict,
    "pass",
  );
});

Deno.test("policies: typing errors are named, not passed over", () => {
  const bad: [unknown, RegExp][] = [
    [{ rows: [] }, /at least one rule/],
    [{ rows: [{ match: "a", tolerence: "2%" }] }, /rows\.0\.tolerence/],
    [{ rows: [{ match: "a", tolerance: "2" }] }, /percentage such as "2%"/],
    [{ rows: [{ match: "a", mode: "limit" }] }, /a limit needs max or min/],
    [{ rows: [{ match: "a", mode: "floor" }] }, /needs min_tps/],
    [{ rows: [{ match: "a", metric: "ttft_ns" }] }, /paired takes the metric median_tps/],
    [{ rows: [{ match: "a" }], on_inconclusive: "maybe" }, /on_inconclusive/],
  ];
  for (const [document, message] of bad) {
    assert.throws(() => parsePolicy(JSON.stringify(document), "gate.json"), message);
  }
  assert.throws(() => parsePolicy("{", "gate.json"), /gate\.json is not valid JSON/);
  assert.ok(matches("decode*@d0", "decode128@d0"));
  assert.ok(!matches("decode*@d0", "decode128@d01"));
  assert.ok(matches("a.c", "a.c") && !matches("a.c", "abc"));
});

function accepted(changes: readonly number[], program: string | null = null): Baseline {
  const { fingerprint, machine } = { fingerprint: fingerprintOfTests(), machine: "Some CPU 9000" };
  let baseline: Baseline | null = null;
  changes.forEach((ratio, i) => {
    baseline = accept(baseline, {
      reason: `change ${i}`,
      now: new Date(Date.parse("2026-11-01T00:00:00Z") + i * 3_600_000),
      days: 90,
      fingerprint,
      machine,
      commit: null,
      program,
      rows: [{ id: "decode128@d0", metric: "median_tps", value: 1000, ci: null, ratio }],
    });
  });
  return baseline!;
}

function fingerprintOfTests(): string {
  return rowsOfReport(report([row("decode128@d0", rates(1))]))[0].fingerprint;
}

Deno.test("ten accepted losses of 1.9 % are seen, and stopped where the policy says so", async () => {
  const baseline = accepted([1, ...Array.from({ length: 10 }, () => 0.981)]);
  const last = baseline.entries.at(-1)!.rows[0];
  assert.ok(Math.abs(last.cumulative - 0.981 ** 10) < 1e-12);
  const one = await comparison({ script: { head: 0.99 }, settings: { tolerance: 0.05 } });
  const rules = [{ ...PAIRED, tolerance: "5%" }];
  const shown = judge({ rules, comparisons: [one], baselines: [baseline] });
  assert.equal(shown.verdict, "pass");
  assert.match(
    gateLines(shown).join("\n"),
    /decode128@d0: 0\.81\dx since 2026-11-01 \(11 accepted\)/,
  );
  const stopped = judge({
    rules,
    comparisons: [one],
    baselines: [baseline],
    policy: { cumulative_tolerance: "10%" },
  });
  assert.equal(stopped.verdict, "regression");
  // Rows that were measured alone are held against the oldest rate.
  const alone = { id: "decode128@d0", metric: "median_tps", value: 900, ratio: null };
  assert.equal(cumulativeChange(baseline.entries, alone), 0.9);
});

Deno.test("an accepted loss passes for the program that was accepted, no worse, and until it expires", async () => {
  const baseline = accepted([0.95], "new");
  const slow = await comparison({ script: SLOW, program: "new" });
  assert.equal(judge({ comparisons: [slow], baselines: [baseline] }).verdict, "pass");
  const other = await comparison({ script: SLOW, program: "newer" });
  assert.equal(judge({ comparisons: [other], baselines: [baseline] }).verdict, "regression");
  const worse = await comparison({ script: { head: 0.9 }, program: "new" });
  assert.equal(judge({ comparisons: [worse], baselines: [baseline] }).verdict, "regression");
  const old = structuredClone(baseline);
  old.entries[0].expires_at = "2026-11-15T00:00:00Z";
  const expired = judge({ comparisons: [slow], baselines: [old] });
  assert.equal(expired.verdict, "regression");
  assert.match(gateLines(expired).join("\n"), /the baseline expired on 2026-11-15/);
});

Deno.test("a row that the baseline has and this run lacks is missing", async () => {
  const baseline = accepted([1]);
  baseline.entries[0].rows.push({ ...baseline.entries[0].rows[0], id: "decode128@d2048" });
  const result = judge({ comparisons: [await comparison()], baselines: [baseline] });
  assert.equal(result.verdict, "errors");
  assert.equal(gateLines(result)[0], "MISSING decode128@d2048: the baseline has this row");
});

Deno.test("stored reports: clearly apart is a verdict, anything else is not", () => {
  const compare = (base: number, head: number, n = 10) =>
    compareStored(
      report([row("decode128@d0", rates(base, n))]),
      report([row("decode128@d0", rates(head, n))]),
      settings(),
    )[0];
  assert.equal(compare(100, 100).outcome, "inconclusive");
  assert.equal(compare(100, 95).outcome, "inconclusive");
  assert.equal(compare(100, 80).outcome, "fail");
  assert.equal(compare(100, 120).outcome, "pass");
  assert.equal(compare(100, 80, 3).outcome, "inconclusive");
  const missing = compareStored(report([row("decode128@d0", rates(1))]), report([]), settings());
  assert.equal(missing[0].outcome, "error");
  const check = { ...row("decode128@d0", rates(1)).check, output_sha256: "f".repeat(64) };
  const [changed] = compareStored(
    report([row("decode128@d0", rates(100))]),
    report([row("decode128@d0", rates(100), { check })]),
    settings(),
  );
  assert.equal(changed.outcome, "incomparable");
});

Deno.test("a baseline of another machine is said to be one", async () => {
  const baseline = { ...accepted([1]), fingerprint: "0".repeat(16) };
  const result = judge({ comparisons: [await comparison()], baselines: [baseline] });
  assert.match(gateLines(result).join("\n"), /baseline is of another machine/);
  assert.notEqual(
    rowsOfReport(report([row("decode128@d0", rates(1))]))[0].fingerprint,
    rowsOfReport(
      report([row("decode128@d0", rates(1))], { env: environment({ cpu: "Other" }) }),
    )[0].fingerprint,
  );
});
