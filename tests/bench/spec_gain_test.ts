/** The gain of a run of rounds on a machine that is not quiet, and of a control that cannot have any. */
import assert from "node:assert/strict";
import type { Row, VerifySweep } from "../../bench/report.ts";
import { speculateRow } from "../../bench/spec_rows.ts";
import { painter } from "../../cli/print.ts";
import { verifyTables } from "../../cli/verify_table.ts";
import { fakeReport, HEAD } from "./fake_report.ts";

const SERIAL_NS = 96e6;
const SWEEP: VerifySweep = {
  rows: [1, 4],
  drafter: "ngram",
  drafts: 3,
  gen: 96,
  acceptance: null,
  acceptance_file: null,
};

const WORK = {
  kind: "speculate",
  gen: 96,
  drafter: "ngram",
  drafts: 3,
  temperature: 100,
} as const;
const NOTHING_DRAFTED = {
  deviceNs: 0,
  draftNs: 0,
  rounds: 0,
  serial: 96,
  lengths: [],
  drafted: 0,
  accepted: 0,
  acceptedAt: [],
  tokens: 96,
  digest: "",
  ids: [],
};
const NO_SAMPLES = { warmupNs: [], warmupTokens: 0, calls: [], times: [], joules: null };

Deno.test("sweep of rounds: a gain is that of runs beside serial decode, and one without a right draft is told", async () => {
  const { rows } = await fakeReport({ verify_sweep: SWEEP }, { accepts: [null] });
  const control = rows.find(({ id }) => id === "ngram3-control@d0")!;
  // Half of the turns are twice as slow, and one of them gets so between serial decode and its run: the median of
  // serial decode alone is of a fast turn, that of the runs is not.
  const turns = Array.from({ length: 24 }, (_, i) => i % 2 === 1 ? 2 : 1);
  const serialNs = turns.with(1, 1).map((slow) => SERIAL_NS * slow);
  const of = (gain: number) => {
    const runs = turns.map((slow, i) => ({
      ...NOTHING_DRAFTED,
      ns: SERIAL_NS * slow / gain * (1 + 0.01 * (i % 3)),
      startedNs: i,
    }));
    const taken = { runs, serialNs, samples: NO_SAMPLES, plays: [], beside: [], equal: true };
    return speculateRow(control, WORK, { ...taken, hits: { prompt: 0, output: 0 } }, null, 0);
  };
  const lost = of(0.97), { speedup, speedup_ci95: ci } = lost.spec!.run!;
  assert.ok(Math.abs(speedup! - 0.97 / 1.01) < 1e-9, `${speedup}`);
  assert.ok(ci![0] >= 0.97 / 1.02 - 1e-9 && ci![1] <= 0.97 + 1e-9, `${ci}`);
  const table = (row: Row) => verifyTables({ ...HEAD, rows: [row] }, painter(false, {}));
  assert.match(table(lost), / 0\.96x \(0\.9\d\.\.0\.9\d\) /);
  assert.doesNotMatch(table(lost), /without a right draft/);
  assert.match(
    table(of(1.1)),
    /\nngram3-control@d0 seems to gain 1\.09x \(1\.\d\d\.\.1\.\d\d\) without a right draft: believe no gain/,
  );
});
