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

async function sweptReport(more: Partial<VerifySweep>): Promise<Report> {
  const verify_sweep: VerifySweep = {
    rows: [1, 2, 5, 24],
    drafter: "ngram",
    drafts: 4,
    gen: 40,
    acceptance: [0.8, 0.5, 0.3],
    acceptance_file: null,
    ...more,
  };
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
    assert.ok(report.rows[6].spec!.run!.prompt_hit_rate! < 0.05, "a control that repeats itself");
    const curves = verifyCurves(report.rows, report.spec);
    assert.deepEqual(report.verify_curves, curves);
    assert.deepEqual(curves[0].points.map((p) => p.rows), [1, 2, 5, 24]);
    assert.ok(curves[0].best.some((b) => b.source === "given"));
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

Deno.test("rounds: how much a text repeats itself", () => {
  assert.equal(selfHitRate([]), null);
  assert.equal(selfHitRate([1, 2, 3, 4]), 0);
  // The fifth to eighth repeat, and the n-gram drafter needs two tokens to see it.
  assert.equal(selfHitRate([1, 2, 3, 4, 1, 2, 3, 4]), 2 / 8);
  assert.equal(selfHitRate([1, 2, 3, 4, 1, 2, 3, 4], 4), 2 / 4);
});
