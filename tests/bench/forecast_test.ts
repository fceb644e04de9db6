/** How long a sweep says that it will take, over scripted times. */
import assert from "node:assert/strict";
import { cellsOf } from "../../bench/grid.ts";
import { sweep } from "../../bench/sweep.ts";
import { FakeRig } from "./fake_rig.ts";
import { specWith } from "./spec.ts";

const MS = 1e6;

Deno.test("progress: a sweep over depths is foretold from its first row on", async () => {
  const rows = Array.from({ length: 16 }, (_, i) => i + 1);
  const verify_sweep = {
    rows,
    drafter: "none",
    drafts: 4,
    gen: 128,
    acceptance: null,
    acceptance_file: null,
  } as const;
  const spec = specWith({ verify_sweep, n_depth: [0, 4096, 32768], repetitions: 3 });
  const rig = new FakeRig({
    fillNs: (depth) => depth * 0.05 * MS,
    roundNs: (rows) => (1 + rows / 2) * MS,
  });
  const told: { cell: string; left: number; at: number }[] = [];
  await sweep({
    spec,
    cells: cellsOf(spec),
    rig,
    checkRows: 17,
    battery: false,
    dirtyBuild: false,
    onProgress: ({ cell, stage, remainingNs }) => {
      if (stage === "done") told.push({ cell, left: remainingNs!, at: Number(rig.clock.now()) });
    },
  });
  assert.equal(told.length, 51);
  const end = told.pop()!.at;
  for (const { cell, left, at } of told) {
    const off = left / (end - at);
    assert(off > 1 / 3 && off < 3, `behind ${cell} ${off} times what it took`);
  }
});
