/** Decode in native calls of several lengths: cells, rows, and what a call costs the host. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { callCosts } from "../../bench/call_costs.ts";
import { withDerived } from "../../bench/derived.ts";
import { cellsOf } from "../../bench/grid.ts";
import { reportSchema } from "../../bench/report.ts";
import { reportTable } from "../../cli/bench_table.ts";
import { painter } from "../../cli/print.ts";
import { run } from "../cli/fake_terminal.ts";
import { fakeReport, HEAD } from "./fake_report.ts";
import { specWith } from "./spec.ts";

const SPEC = { n_gen: [128], call_tokens: [1, 32], repetitions: 6 };
const SCRIPT = { callNs: 40_000, stepNs: () => 1_000_000 };

Deno.test("calls: a dimension of decode rows alone, in their names where it varies", () => {
  const given = { n_prompt: [16], n_gen: [8, 64], prompt_gen: [[4, 4]] as [number, number][] };
  assert.deepEqual(cellsOf(specWith({ ...given, call_tokens: [1, 32] })).map((c) => c.id), [
    "prefill16@d0",
    "decode8@d0,calls=1",
    "decode8@d0,calls=32",
    "decode64@d0,calls=1",
    "decode64@d0,calls=32",
    "prompt_decode4+4@d0",
  ]);
  const one = cellsOf(specWith({ n_gen: [8], call_tokens: [4], kv: ["f16", "q8"] }));
  assert.deepEqual(one.map((c) => c.id), ["decode8@d0,kv=f16", "decode8@d0,kv=q8"]);
});

Deno.test("calls: the host's time of a call is what more calls add to the same tokens", async () => {
  const { rows } = await fakeReport(SPEC, SCRIPT);
  const [single, many] = rows;
  assert.deepEqual([single.params.call_tokens, many.params.call_tokens], [1, 32]);
  assert.equal(single.calls?.tokens.length, 128);
  assert.equal(many.calls?.tokens.length, 4);
  assert.equal(single.calls?.ns[0][0], 1_040_000);
  const [cost] = callCosts(rows);
  assert(Math.abs(cost.host_ns_per_call - 40_000) < 1e-6, String(cost.host_ns_per_call));
  const [lo, hi] = cost.ci95!;
  assert(lo <= cost.host_ns_per_call + 1e-6 && hi >= cost.host_ns_per_call - 1e-6);
  assert.deepEqual(cost.points, [
    { row: "decode128@d0,calls=1", call_tokens: 1, calls: 128, median_ns: 133_120_000 },
    { row: "decode128@d0,calls=32", call_tokens: 32, calls: 4, median_ns: 128_160_000 },
  ]);
});

Deno.test("calls: noise widens the interval; rows that failed, or calls alike, give no cost", async () => {
  const noisy = (_: number, run: number) => 1_000_000 + 5000 * (run * 7 % 5);
  const report = await fakeReport(SPEC, { ...SCRIPT, stepNs: noisy });
  const [{ host_ns_per_call: ns, ci95 }] = callCosts(report.rows);
  assert(ci95![0] < ns && ns < ci95![1]);
  const failed = report.rows.map((r) => ({ ...r, check: { ...r.check, ok: false } }));
  assert.deepEqual(callCosts(failed), []);
  assert.deepEqual(callCosts((await fakeReport({ n_gen: [64, 128] }, SCRIPT)).rows), []);
});

Deno.test("calls: costs stand in the report and under its table", async () => {
  const { rows } = await fakeReport(SPEC, SCRIPT), report = withDerived(HEAD, rows);
  v.parse(reportSchema, report);
  assert.equal(report.call_costs?.length, 1);
  assert.match(
    reportTable(report, painter(false, {})),
    /\nhost: 40\.0 us a call \(40\.0\.\.40\.0\): decode128@d0,calls=1 in 128 calls against decode128@d0,calls=32 in 4\n/,
  );
});

Deno.test("calls: what cannot be is refused in one line", async () => {
  const cases: [string[], RegExp][] = [
    [["--calls", "0"], /^error: --calls 0: a call decodes at least one token\.\n$/],
    [["--calls", "x"], /--calls is "x": give numbers/],
    [["--calls", "1", "--token-times"], /--token-times makes a call for every token: leave out/],
  ];
  for (const [argv, expected] of cases) {
    const { code, err } = await run(["bench", ...argv]);
    assert.equal(code, 2, err);
    assert.match(err, expected);
  }
});
