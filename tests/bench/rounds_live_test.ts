/** The sweep of rounds over the built-in model: every row's tokens are serial decode's, and all is told. */
import assert from "node:assert/strict";
import { drawPictures } from "../../bench/plot/draw.ts";
import { LIGHT } from "../../bench/plot/palette.ts";
import { SHEET } from "../../bench/plot/sheet.ts";
import { parseReport, reportText } from "../../bench/report_file.ts";
import { runBench } from "../../bench/run.ts";
import { selfHitRate } from "../../bench/live_rounds.ts";
import type { Report, VerifySweep } from "../../bench/report.ts";
import { verifyCurves } from "../../bench/verify_curves.ts";
import { painter } from "../../cli/print.ts";
import { verifyTables } from "../../cli/verify_table.ts";
import { specWith } from "./spec.ts";

const SWEEP: VerifySweep = {
  rows: [1, 2, 5, 24],
  drafter: "ngram",
  drafts: 4,
  gen: 40,
  acceptance: [0.8, 0.5, 0.3],
  acceptance_file: null,
};

async function sweptReport(more: Partial<VerifySweep>): Promise<Report> {
  const verify_sweep = { ...SWEEP, ...more };
  const spec = specWith({ model: "tiny", n_depth: [40], repetitions: 3, verify_sweep });
  const { report } = await runBench({ spec, argv: [], env: {} });
  const text = reportText(report), again = parseReport(text, "sweep.json");
  assert.deepEqual(JSON.parse(reportText(again)), JSON.parse(text));
  return report;
}

for (const drafter of ["ngram", "mtp"] as const) {
  Deno.test(`rounds: a sweep of the built-in model with ${drafter} drafts`, async () => {
    const report = await sweptReport({ drafter });
    const at = "@d40";
    assert.deepEqual(report.rows.map((r) => r.id), [
      ...[`decode40${at}`, `verify1${at}`, `verify2${at}`, `verify5${at}`, `verify24${at}`],
      ...[`${drafter}4-text${at}`, `${drafter}4-control${at}`],
    ]);
    for (const row of report.rows) {
      assert.equal(row.status, "ok", `${row.id}: ${row.error}`);
      assert.ok(row.check.ok, row.id);
    }
    const five = report.rows[3];
    assert.deepEqual(five.rounds!.accepted, [0, 2, 4]);
    assert.deepEqual([five.check.reference, five.check.matched_tokens], ["serial", 19]);
    assert.equal(five.rounds!.draft_ns !== null, drafter === "mtp");
    assert.ok(five.rounds!.commit_ns.every((ns) => ns > 0));
    const names = (i: number) => report.rows[i].dispatch!.kernels.map((k) => k.name).join();
    assert.match(names(3), /gemv_act8.*|gdn_commit/);
    assert.match(names(4), /gemm/);
    const { spec, check, params } = report.rows[5];
    assert.deepEqual([check.reference, check.matched_tokens], ["serial", 40]);
    assert.equal(params.tokens, "text");
    assert.equal(spec!.rounds + spec!.accepted + spec!.run!.serial, 40);
    assert.equal(spec!.per_position.length > 0, spec!.rounds > 0);
    assert.ok(spec!.run!.speedup! > 0 && spec!.run!.foretold_speedup! > 0);
    const control = report.rows[6].spec!;
    assert.ok(control.run!.prompt_hit_rate! < 0.05, "a control whose prompt repeats itself");
    assert.ok(control.run!.output_hit_rate! < 0.05, "a control whose output repeats itself");
    assert.ok(control.accepted <= 2, `${control.accepted} drafts of the control are right`);
    assert.ok(control.run!.temperature > 0 && spec!.run!.temperature === 0);
    for (const run of [control.run!, spec!.run!]) {
      assert.equal(run.foretold_ns.length, run.serial_ns.length);
      assert.ok(run.forced.every((play) => play.ns.length === run.serial_ns.length));
      assert.equal(run.chains.length > 0, drafter === "mtp");
    }
    const curves = verifyCurves(report.rows, report.spec);
    assert.deepEqual(report.verify_curves, curves);
    assert.deepEqual(curves[0].points.map((p) => p.rows), [1, 2, 5, 24]);
    assert.ok(curves[0].best.some((b) => b.source === "given"));
    // Places that were not measured are not guessed.
    assert.ok(curves[0].best.every((b) => b.source === "given" || b.drafts <= 4));
    const table = verifyTables(report, painter(false, {}));
    assert.match(table, /V\(T\)\/S/);
    assert.match(table, new RegExp(`${drafter}4-control`));
  });
}

Deno.test("rounds: a sweep is drawn with the union of its experts", async () => {
  const report = await sweptReport({ drafter: "none", rows: [1, 2, 4] });
  const { pictures: [p] } = drawPictures([{ name: "sweep.json", report }], ["verify"]);
  const panels = p.panels(SHEET, LIGHT);
  assert.equal(panels.length, 2);
  assert.match(panels[0].svg, /class="one-by-one"/);
  assert.match(panels[1].svg, /distinct experts/);
  const [curve] = report.verify_curves!;
  assert.deepEqual(p.table.rows.map((r) => r[4]), curve.points.map((c) => c.cost.toFixed(3)));
});

Deno.test("rounds: runs on a text that nobody named are left out without a tokenizer", async () => {
  const model = new URL("../fixtures/qwen35-moe-tiny/model.safetensors", import.meta.url).pathname;
  const verify_sweep = { ...SWEEP, rows: [1, 3], drafts: 2 };
  const spec = specWith({ model, repetitions: 2, verify_sweep }), notes: string[] = [];
  const { report } = await runBench({ spec, argv: [], env: {}, onNote: (n) => notes.push(n) });
  const ids = ["decode40@d0", "verify1@d0", "verify3@d0", "ngram2-control@d0"];
  assert.deepEqual(report.rows.map((r) => [r.id, r.status]), ids.map((id) => [id, "ok"]));
  assert.ok(notes.some((n) => /no tokenizer: runs on a text are left out/.test(n)), notes.join());
  const [one, three] = [1, 2].map((i) => report.rows[i].moe!.distinct_experts_mean);
  assert.ok(three > one, `${three} experts of three tokens, ${one} of one`);
  const named = {
    ...spec,
    verify_sweep: { ...verify_sweep, acceptance_file: import.meta.filename! },
  };
  const asked = await runBench({ spec: named, argv: [], env: {} });
  assert.match(asked.report.rows[3].error!, /tokenizer/);
});

Deno.test("rounds: how much a text repeats itself", () => {
  assert.equal(selfHitRate([]), null);
  assert.equal(selfHitRate([1, 2, 3, 4]), 0);
  // The fifth to eighth repeat, and the n-gram drafter needs two tokens to see it.
  assert.equal(selfHitRate([1, 2, 3, 4, 1, 2, 3, 4]), 2 / 8);
  assert.equal(selfHitRate([1, 2, 3, 4, 1, 2, 3, 4], 4), 2 / 4);
});
