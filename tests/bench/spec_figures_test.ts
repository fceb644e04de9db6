/** What speculation is worth: arithmetic by hand, and a fake engine whose times are known. */
import assert from "node:assert/strict";
import {
  bestLength,
  breakEven,
  crossover,
  marginalNs,
  roundNs,
  speedup,
  survivalGiven,
  type VerifyCurve,
} from "../../bench/spec_figures.ts";
import { evenSurvival, expectedTokens, survivalOf } from "../../engine/speculate/expected.ts";
import type { Row, VerifySweep } from "../../bench/report.ts";
import {
  type BesideTimes,
  forcedPlays,
  foretoldNs,
  survivalAt,
  turnOf,
} from "../../bench/spec_forecast.ts";
import { balancedOrders } from "../../bench/spec_sample.ts";
import { verifyCurves } from "../../bench/verify_curves.ts";
import { painter } from "../../cli/print.ts";
import { gainsOf } from "../../bench/spec_rows.ts";
import { verifyTables } from "../../cli/verify_table.ts";
import { cellsOf } from "../../bench/grid.ts";
import { fakeReport } from "./fake_report.ts";
import type { Script } from "./fake_rig.ts";
import { normal, seeded } from "../random.ts";
import { specWith } from "./spec.ts";

function near(got: number | null | undefined, want: number, what = "", within = 1e-9) {
  assert.ok(Math.abs(got! / want - 1) < within, `${what}: ${got}, not ${want}`);
}

function curve(costs: readonly number[], more: Partial<VerifyCurve["points"][number]> = {}) {
  const points = costs.map((cost, i) => ({
    rows: i + 1,
    verifyNs: cost * 1000,
    halfNs: i > 1 ? 0 : null,
    allNs: i > 0 ? 0 : null,
    draftNs: 0,
    ...more,
  }));
  return { stepNs: 1000, chainedNs: 0, points };
}

Deno.test("figures: tokens of a round", () => {
  assert.equal(expectedTokens([], 0), 1);
  near(expectedTokens([0.8, 0.5, 0.2], 2), 2.3);
  near(expectedTokens([0.8, 0.5, 0.2], 9), 2.5);
  const p = 0.7, even = evenSurvival(p, 15);
  for (let n = 0; n <= 15; n++) near(expectedTokens(even, n), (1 - p ** (n + 1)) / (1 - p));
  survivalOf([0.9, 0.5, 0.5]).forEach((s, i) => near(s, [0.9, 0.45, 0.225][i]));
  assert.deepEqual(survivalGiven([0.5], 3), [0.5, 0.25, 0.125]);
  assert.deepEqual(survivalGiven([0.5, 0.4], 3), [0.5, 0.4]);
});

Deno.test("figures: where one play beats one by one, and what a row adds", () => {
  assert.equal(crossover(curve([1, 2.1, 2.9, 3])), 3);
  assert.equal(crossover(curve([1, 2, 3, 4])), null);
  assert.equal(crossover(curve([1, 1.5])), 2);
  near(marginalNs(curve([1, 1.5, 1.75]), 3), 250);
  assert.equal(marginalNs(curve([1, 1.5]), 1), null);
  const gap = {
    ...curve([]),
    points: curve([1, 1.5, 1.6, 2.6]).points.filter((p) => p.rows !== 3),
  };
  near(marginalNs(gap, 4), 550);
});

Deno.test("figures: break-even is where the speed-up is one", () => {
  // Two drafts: 1 + p + p^2 = 1.75 at p = 0.5.
  near(breakEven(curve([1, 1.4, 1.75]), 2), 0.5, "two drafts", 1e-6);
  near(breakEven(curve([1, 1.4]), 1), 0.4, "one draft", 1e-6);
  assert.equal(breakEven(curve([1, 2.1]), 1), null);
  assert.equal(breakEven(curve([1, 1.4]), 5), null);
  assert.ok(breakEven(curve([1, 0.9]), 1)! < 1e-9);
  const costs = [1, 1.2, 1.5, 2.2, 2.3, 3.1], c = curve(costs);
  for (let n = 1; n < costs.length; n++) {
    near(speedup(c, evenSurvival(breakEven(c, n)!, n), n), 1, `${n}`, 1e-6);
  }
});

Deno.test("figures: the best length, with the head's drafts and with commits in it", () => {
  const stairs = curve([1, 1.2, 1.3, 1.4, 2.2, 2.3, 2.4, 2.5]);
  assert.equal(bestLength(stairs, evenSurvival(0.8, 7)).drafts, 3);
  near(bestLength(stairs, evenSurvival(0.8, 7)).speedup, (1 + 0.8 + 0.64 + 0.512) / 1.4);
  assert.equal(bestLength(stairs, evenSurvival(0.98, 7)).drafts, 7);
  assert.deepEqual(bestLength(stairs, evenSurvival(0.1, 7)), { drafts: 0, speedup: 1, tokens: 1 });
  assert.equal(bestLength(stairs, [0.9]).drafts, 1);
  const dear = curve([1, 1.2, 1.3, 1.4], { draftNs: 1000 });
  assert.equal(bestLength(dear, evenSurvival(0.4, 3)).drafts, 0);
  // Five rows: commits of none, two and four drafts.
  const c = curve([1, 1, 1, 1, 2], { halfNs: 100, allNs: 500 });
  assert.deepEqual([0, 1, 2, 3, 4].map((k) => roundNs(c, 4, k)), [2000, 2050, 2100, 2300, 2500]);
  assert.equal(roundNs(c, 9, 0), null);
  // Single tokens beside rounds are calls of their own; chained rounds are not.
  near(speedup(curve([1.5, 2]), [0.8], 1, 0.5), (1.8 + 0.5) / (2 + 0.5 * 1.5));
  near(speedup({ ...curve([1.5, 2]), chainedNs: 500 }, [0.8], 1), 1.8 / 1.5);
});

Deno.test("figures: a run is foretold from what it verified and kept, length by length", () => {
  // Four rounds of two drafts that keep 2, 1, 0, 0; one of three that keeps all; six single tokens.
  const lengths = [
    { drafts: 0, plays: 6, acceptedAt: [] },
    { drafts: 2, plays: 4, acceptedAt: [2, 1] },
    { drafts: 3, plays: 1, acceptedAt: [1, 1, 1] },
  ];
  assert.deepEqual(survivalAt(lengths), [3 / 5, 2 / 5, 1]);
  const plays = forcedPlays(lengths, 0);
  assert.deepEqual(plays.map((p) => [p.drafts, p.accepted, p.next]), [
    [0, 0, 0],
    ...[[2, 0, 0], [2, 1, 0], [2, 2, 0]],
    ...[[3, 0, 0], [3, 1, 0], [3, 3, 0]],
  ]);
  // Singles 6 of 11; of two drafts 2 none, 1 half, 1 all; of three 1 all.
  const turn = turnOf(plays, lengths), times = plays.map((_, at) => turn.filter((t) => t === at));
  assert.deepEqual(times.map((t) => t.length), [7, 2, 1, 1, 1, 1, 1]);
  assert.deepEqual(turn.slice(0, 3), [0, 0, 1]);
  const beside: BesideTimes = {
    playNs: [10, 20, 21, 25, 30, 32, 40],
    proposeNs: 7,
    chain: null,
  };
  assert.equal(foretoldNs(lengths, plays, beside), 7 + 6 * 10 + (25 + 21 + 20 + 20) + 40);
  const without = { ...beside, playNs: beside.playNs.with(5, null) };
  assert.equal(foretoldNs(lengths, plays, without), null);
  // In a chain of two rounds, one of which kept both drafts, a round takes 14 and what it keeps.
  const chain = { ns: 33, length: { drafts: 2, plays: 2, acceptedAt: [1, 1] } };
  const chained = foretoldNs(lengths.slice(0, 2), plays, { ...beside, chain });
  assert.equal(chained, 7 + 6 * 10 + 4 * 14 + 5 + 1);
  // A busy moment in the play that keeps both: more than all of the chain, which is left with less than nothing.
  const busy = { ...beside, playNs: beside.playNs.with(3, 1000), chain };
  assert.equal(foretoldNs(lengths.slice(0, 2), plays, busy), null);
});

Deno.test("figures: each of several things follows each other one equally often", () => {
  for (const n of [2, 3, 4, 5]) {
    const orders = balancedOrders(n), pairs = new Map<string, number>();
    for (const order of orders) {
      assert.deepEqual(order.toSorted(), Array.from({ length: n }, (_, i) => i));
      for (let i = 1; i < n; i++) {
        const pair = `${order[i - 1]} ${order[i]}`;
        pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
      }
    }
    assert.equal(pairs.size, n * (n - 1));
    assert.equal(new Set(pairs.values()).size, 1, `${n}`);
  }
});

const SWEEP = {
  rows: [1, 2, 4, 8, 24],
  drafter: "mtp",
  drafts: 3,
  gen: 96,
  acceptance: [0.8],
  acceptance_file: null,
} as const;
const MS = 1e6;
const SCRIPT: Script = {
  stepNs: () => MS,
  roundNs: (rows, accepted) => (1 + 0.25 * (rows - 1)) * MS + accepted * 1000,
  commitNs: (_, accepted) => 5000 + accepted * 1000,
  draftNs: (drafts) => drafts * 100_000,
  verifyNs: (rows) => rows * 0.2 * MS,
  accepts: [3, 0, null, 1],
  proposeNs: 50_000,
  routing: { sampledTokens: 512, imbalance: 1.5, distinct: (rows) => Math.min(64, 8 * rows) },
};

async function swept(script: Script = {}, more: Partial<VerifySweep> = {}) {
  const spec = { verify_sweep: { ...SWEEP, rows: [...SWEEP.rows], acceptance: [0.8], ...more } };
  const report = await fakeReport(spec, { ...SCRIPT, ...script });
  const row = (id: string): Row => report.rows.find((r) => r.id === id)!;
  return { report, row, curves: verifyCurves(report.rows, report.spec) };
}

Deno.test("sweep of rounds: its cells", () => {
  const spec = specWith({
    n_depth: [0, 512],
    verify_sweep: { ...SWEEP, rows: [1, 24], acceptance: null },
  });
  const cells = cellsOf(spec);
  assert.deepEqual(cells.map((c) => [c.id, c.work!.kind, c.tokens ?? "random"]).slice(0, 5), [
    ["decode96@d0", "decode", "random"],
    ["verify1@d0", "round", "random"],
    ["verify24@d0", "verify", "random"],
    ["mtp3-text@d0", "speculate", "text"],
    ["mtp3-control@d0", "speculate", "random"],
  ]);
  assert.equal(cells.length, 10);
  assert.equal(new Set(cells.map((c) => c.group)).size, 6);
});

Deno.test("sweep of rounds: scripted times come out as costs", async () => {
  const { report, curves, row } = await swept();
  assert.equal(curves.length, 1);
  const [c] = curves, at = (rows: number) => c.points.find((p) => p.rows === rows)!;
  near(c.step_ns, MS);
  assert.deepEqual(c.points.map((p) => p.rows), [1, 2, 4, 8, 24]);
  near(at(4).cost, 1.75);
  near(at(4).cost_per_row, 1.75 / 4);
  near(at(4).marginal_ns, 0.25 * MS);
  near(at(24).cost, 4.8);
  assert.deepEqual(at(4).commit_ns, [5000, 6000, 8000]);
  assert.deepEqual(at(1).commit_ns, [5000, 5000, 5000]);
  assert.equal(at(24).commit_ns, null);
  near(at(4).draft_ns, 300_000);
  // A round beside the 900 us of its records.
  assert.deepEqual([at(1).host_ns, at(4).host_ns, at(24).host_ns], [100_000, 850_000, null]);
  const table = (host: number | null) => {
    const points = c.points.map((p) => p.rows === 4 ? { ...p, host_ns: host } : p);
    return verifyTables({ ...report, verify_curves: [{ ...c, points }] }, painter(false, {}));
  };
  assert.match(table(850_000), /\n *4 .* 850\.0 us /);
  assert.doesNotMatch(table(850_000), /too little to be seen/);
  assert.match(table(null), /\n *4 .* - /);
  assert.match(table(null), /\nhost -: too little to be seen, /);
  // Rounds that keep drafts are as many as asked for, those that measure V(T) more.
  const { repetitions } = report.spec, { ns } = row("verify4@d0").rounds!;
  assert.deepEqual(ns.map((all) => all.length), [25, repetitions, repetitions]);
  assert.equal(at(8).distinct_experts, 64);
  assert.equal(c.crossover_rows, 2);
  near(at(2).breakeven, (1.25 + 0.1 - 1) / (1 - 0.001), "one draft", 1e-6);
  assert.equal(at(24).breakeven, null);
  const given = c.best.find((b) => b.source === "given")!;
  near(given.speedup, 2.952 / (1.75 + 0.3 + (1 + 2 * (0.952)) / 1000 - 1 / 1000), "best", 2e-3);
  assert.equal(given.drafts, 3);
  assert.deepEqual(row("verify4@d0").check.reference, "serial");
  assert.ok(row("verify4@d0").check.ok);
});

Deno.test("sweep of rounds: of a width that was not measured it is not known what drafting took", async () => {
  const { row } = await swept({}, { rows: [1, 2] });
  const { shares } = row("mtp3-text@d0").spec!.run!;
  assert.deepEqual([shares.draft, shares.verify], [null, null]);
  const known = (await swept()).row("mtp3-text@d0").spec!.run!.shares;
  assert.ok(known.draft! > 0 && known.verify! > 0);
});

Deno.test("gains of a few turns have an interval with width", () => {
  const serial = [1000, 1000, 1000, 1000, 1000];
  for (const n of [2, 3, 4, 5]) {
    const { speedup, speedup_ci95 } = gainsOf(
      serial.slice(0, n),
      [900, 1100, 950, 1300, 800].slice(0, n),
      [],
    );
    const [lo, hi] = speedup_ci95!;
    assert.ok(lo < hi && lo <= speedup && speedup <= hi, `${n} turns: ${lo} to ${hi}`);
  }
  assert.equal(gainsOf([1000], [900], []).speedup_ci95, null);
});

Deno.test("sweep of rounds: a run says what it did, what it should have done, and where time went", async () => {
  const { row } = await swept({ draftNs: undefined }, { drafter: "ngram" });
  const { spec, stats, check, limit } = row("ngram3-text@d0");
  // Accepts 3, 0, none, 1: 4 + 1 + 1 + 2 tokens each time, twelve times.
  assert.deepEqual([spec!.rounds, spec!.run!.serial, spec!.accepted], [36, 12, 48]);
  assert.deepEqual(spec!.per_position, [24 / 36, 12 / 36, 12 / 36]);
  near(spec!.mean_len, 1 + 48 / 36);
  const device = 36 * 1.75 * MS + 48 * 1000 + 12 * MS, total = device + 48 * 50_000;
  near(stats!.median_ns, total);
  near(spec!.run!.speedup, 96 * MS / total);
  near(spec!.run!.serial_tps, 1000);
  const { shares } = spec!.run!;
  near(shares.draft, 48 * 50_000 / total);
  near(shares.commit, 36 * 6000 / total);
  near(shares.verify, (device - 36 * 6000) / total);
  assert.equal(shares.host, 0);
  near(spec!.run!.foretold_speedup, spec!.run!.speedup!, "foretold");
  assert.deepEqual([check.reference, check.matched_tokens, check.ok], ["serial", 96, true]);
  assert.equal(limit, null);
});

Deno.test("sweep of rounds: other tokens than serial decode's fail the row", async () => {
  let calls = 0;
  const { row, curves } = await swept({ output: () => calls++ === 40 ? "other" : "" });
  const failed = ["verify1@d0", "verify2@d0", "verify4@d0"].map(row).filter((r) => !r.check.ok);
  assert.equal(failed.length, 1);
  assert.ok(curves[0].points.every((p) => `verify${p.rows}@d0` !== failed[0].id));
});

/** Lengths and outcomes as prompt lookup has them: nothing found, found too late, cut short, all right. */
const LOOKUP = [
  null,
  { length: 3, right: 3 },
  { length: 2, right: 0 },
  null,
  { length: 3, right: 1 },
  { length: 1, right: 1 },
  { length: 2, right: 1 },
];

/** Machines: times of plays by rows and drafts kept, the nth run since the session was opened. */
const MACHINES: Record<string, (rows: number, accepted: number, run: number) => number> = {
  line: (rows) => (1 + 0.25 * (rows - 1)) * MS,
  // Half of the drafts cost little, all of them much.
  commits: (rows, accepted) => rows * 0.4 * MS + 0.6 * MS + (accepted === rows - 1 ? 0.5 * MS : 0),
  "slower and slower": (rows, accepted, run) =>
    (1 + 0.2 * rows + 0.05 * accepted) * (200 + run) * 5_000,
};

for (const drafter of ["ngram", "mtp"] as const) {
  for (const [machine, roundNs] of Object.entries(MACHINES)) {
    Deno.test(`sweep of rounds: a run takes what is foretold: ${drafter}, ${machine}`, async () => {
      const accepts = drafter === "mtp" ? [3, 0, 1, 3, 2, 0] : LOOKUP;
      const draftNs = drafter === "mtp" ? SCRIPT.draftNs : undefined;
      const script = { roundNs, accepts, draftNs, callNs: 80_000, proposeNs: 30_000 };
      const drifts = machine === "slower and slower";
      const stepNs = (_: number, run: number) => drifts ? (200 + run) * 5_000 : MS;
      const { row } = await swept({ ...script, stepNs }, { drafter, rows: [1, 2] });
      for (const name of ["text", "control"]) {
        const run = row(`${drafter}3-${name}@d0`).spec!.run!;
        // Interpolation between half and all of the drafts is right only for straight commits.
        near(run.foretold_speedup, run.speedup!, name, drifts ? 0.02 : 0.01);
      }
    });
  }

  Deno.test(`sweep of rounds: noise leaves the forecast within 5 %: ${drafter}`, async () => {
    const random = seeded(3), slow = { left: 0 };
    // Other programs come and go, and single plays are held up.
    const noise = () => {
      if (slow.left-- <= 0 && random() < 0.02) slow.left = 15;
      return (slow.left > 0 ? 1.6 : 1) * Math.exp(0.1 * normal(random)) + (random() < 0.02 ? 2 : 0);
    };
    const { row } = await swept({
      stepNs: () => MS * noise(),
      roundNs: (rows) => (1 + 0.25 * (rows - 1)) * MS * noise(),
      accepts: drafter === "mtp" ? [3, 0, 1, 3, 2, 0] : LOOKUP,
      draftNs: drafter === "mtp" ? SCRIPT.draftNs : undefined,
      callNs: 80_000,
    }, { drafter, rows: [1, 2], gen: 256 });
    const run = row(`${drafter}3-text@d0`).spec!.run!;
    near(run.foretold_speedup, run.speedup!, "text", 0.05);
  });
}

Deno.test("sweep of rounds: a run too short for its forced plays foretells nothing", async () => {
  const { row } = await swept({ draftNs: undefined, accepts: [3] }, { drafter: "ngram", gen: 6 });
  assert.equal(row("ngram3-text@d0").spec!.run!.foretold_speedup, null);
});
