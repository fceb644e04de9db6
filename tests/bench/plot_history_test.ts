/** Pictures of the same rows from run to run: gaps, limits, accepted baselines. */
import assert from "node:assert/strict";
import { type Baseline, BASELINE_SCHEMA } from "../../bench/baseline.ts";
import { reportFingerprint } from "../../bench/fingerprint.ts";
import { drawPictures } from "../../bench/plot/draw.ts";
import { renderPage } from "../../bench/plot/page.ts";
import { LIGHT } from "../../bench/plot/palette.ts";
import { SHEET } from "../../bench/plot/sheet.ts";
import { changed, examples, HISTORY, marksOf, picture } from "./plot_examples.ts";

Deno.test("history: a panel a row, a gap where a check failed, the change since the oldest", async () => {
  const p = await picture("history", ...HISTORY);
  const panels = p.panels(SHEET, LIGHT);
  assert.equal(panels.length, 3);
  assert.equal(marksOf(p).points, 3 * HISTORY.length - 1);
  assert.equal(panels.filter((panel) => panel.svg.includes('class="gaps"')).length, 1);
  assert.match(panels[1].heading!, /^prefill512@d0, tokens\/s: \+1\.9% .*; limit 14,200, above/);
  assert.match(p.notes.join("\n"), /Not drawn: prefill512@d0 of 2026-10-26\.json \(check failed/);
});

Deno.test("history: accepted baselines are points of the series of their machine, or one alone", async () => {
  const sources = await examples(...HISTORY.slice(-2));
  const row = (value: number) => ({
    id: "decode128@d0",
    metric: "median_tps",
    value,
    ci: [value - 9, value + 9] as [number, number],
    ratio: null,
    cumulative: 1,
  });
  const entry = (day: string, value: number) => ({
    accepted_at: `${day}T00:00:00.000Z`,
    expires_at: "2027-11-01T00:00:00.000Z",
    reason: "an example",
    commit: "0123456789",
    program: null,
    rows: [row(value), { ...row(300), metric: "dispatch.records" }],
  });
  const baseline: Baseline = {
    schema: BASELINE_SCHEMA,
    fingerprint: reportFingerprint(sources[0].report),
    machine: "Example CPU",
    entries: [entry("2026-11-01", 1490), entry("2026-11-12", 1515)],
  };
  const named = { name: "main.json", baseline };
  const [p] = drawPictures(sources, ["history"], [named]).pictures;
  assert.equal(p.panels(SHEET, LIGHT).length, 3);
  assert.equal(marksOf(p).points, 3 * 2 + 2);
  assert.deepEqual(p.table.rows.slice(0, 4).map((cells) => cells.at(-1)), [
    "accepted",
    "valid",
    "accepted",
    "valid",
  ]);
  assert.match(p.facts.join("\n"), /2 points out of accepted baselines/);
  const [alone] = drawPictures([], ["history"], [named]).pictures;
  assert.equal(marksOf(alone).points, 2);
  assert.deepEqual(alone.legend.map((i) => i.label), [
    `accepted, Example CPU, ${baseline.fingerprint}`,
  ]);
  const page = renderPage([alone], { sources: [], baselines: [named] }, []);
  assert.match(
    page,
    /<strong>main\.json<\/strong>: baseline of Example CPU · 2 accepted measurements/,
  );
});

Deno.test("history: a limit near the rates is in the panel", async () => {
  const sources = (await examples(...HISTORY)).map((s) =>
    changed(s, (row) => ({
      ...row,
      limit: row.limit && { ...row.limit, tps_limit: row.stats!.median_tps! * 1.1 },
    }))
  );
  const [p] = drawPictures(sources, ["history"]).pictures;
  assert.ok(marksOf(p).limits >= 3);
  assert.ok(p.legend.some((i) => i.label === "hardware limit"));
});
