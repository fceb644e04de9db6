/** What the table says of loading: seconds, bytes, their rate, and what pinned memory is copied at. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { reportSchema } from "../../bench/report.ts";
import { reportTable } from "../../cli/bench_table.ts";
import { painter } from "../../cli/print.ts";
import { fakeReport } from "./fake_report.ts";
import type { Script } from "./fake_rig.ts";

async function line(script: Script): Promise<string> {
  const report = await fakeReport({ load: true, repetitions: 2, n_gen: [], n_prompt: [] }, script);
  v.parse(reportSchema, report);
  return /^load .*$/m.exec(reportTable(report, painter(false, {})))![0].replace(/ +/g, " ");
}

Deno.test("load: a row shows its share of what pinned memory is copied at, or why nothing is copied", async () => {
  const load: Script = { loadNs: () => 1e9, copied: () => ({ bytes: 19.5e9, ns: 0.5e9 }) };
  assert.match(
    await line({ ...load, upload: 52e9 }),
    /^load 1\.00 s 2 39\.00 75\.0 % 19\.5 GB copied; pinned memory at 52\.00 GB\/s/,
  );
  assert.match(await line(load), /^load 1\.00 s 2 39\.00 19\.5 GB copied(;|$)/);
  assert.match(await line({ ...load, upload: 30e9 }), /^load error: 130\.0 % of what pinned/);
  assert.match(await line({}), /^load 2\.0 ms 2 nothing copied: files are used where they lie, /);
});

Deno.test("load: the rate of an even number of samples is that of the mean of the middle two", async () => {
  const copied = (n: number) => ({ bytes: 3e9, ns: n });
  const spec = { load: true, repetitions: 2, n_gen: [], n_prompt: [] };
  const { rows } = await fakeReport(spec, { copied });
  assert.deepEqual([rows[0].copy?.ns, rows[0].copy?.gb_s], [[1, 2], 2e9]);
});
