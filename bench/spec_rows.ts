/** Samples of rounds to the fields of their rows. Assembles; measures nothing. */
import type { VerifyCurve } from "./spec_figures.ts";
import { foretoldNs, survivalAt } from "./spec_forecast.ts";
import { ROUND_TOKENS } from "./grid.ts";
import type { RunOfRounds, SpeculateWork } from "./port.ts";
import { rate } from "./figures.ts";
import type { Row, RowCheck } from "./report.ts";
import type { RoundSamples, RunSamples } from "./spec_sample.ts";
import { bootstrapMedianCi, median } from "./stats.ts";

/** Neighbouring turns meet the same disturbance. */
const BOOTSTRAP = { confidence: 0.95, resamples: 2000, seed: 1 };
/** Turns that are drawn together at most, as a busy moment is longer than one; and of few turns the share in a block. */
const BLOCK_MAX = 4, BLOCK_SHARE = 1 / 4;

/** Of a row whose tokens must be serial decode's. */
function serialCheck(check: RowCheck, tokens: number, equal: boolean): RowCheck {
  return {
    ...check,
    reference: "serial",
    compared_tokens: tokens,
    matched_tokens: equal ? tokens : 0,
    first_divergence: null,
    ok: check.ok && equal,
  };
}

export function roundsRow(row: Row, { rounds, equal }: RoundSamples): Row {
  return { ...row, rounds, check: serialCheck(row.check, ROUND_TOKENS, equal) };
}

/** `curve` holds the rounds that were measured at this depth before. */
export function speculateRow(
  row: Row,
  work: SpeculateWork,
  taken: RunSamples,
  curve: VerifyCurve | null,
  commitNs: number,
): Row {
  const { runs, serialNs, plays, beside, equal, hits } = taken;
  const run = runs[0], serial = median(serialNs);
  const foretold = beside.map((times, i) => foretoldNs(runs[i].lengths, plays, times));
  return {
    ...row,
    // The bytes of a run depend on how many drafts are accepted.
    limit: null,
    check: serialCheck(row.check, run.tokens, equal),
    absent: { ...row.absent, limit: "depends on how many drafts are accepted" },
    spec: {
      rounds: run.rounds,
      draft_tokens: run.drafted,
      accepted: run.accepted,
      acceptance_rate: run.drafted > 0 ? run.accepted / run.drafted : null,
      mean_len: run.rounds > 0 ? 1 + run.accepted / run.rounds : null,
      per_position: survivalAt(run.lengths),
      cost_ratio: null,
      commit_ns: commitNs,
      breakeven_acceptance: null,
      run: {
        drafter: work.drafter,
        drafts: work.drafts,
        temperature: work.temperature,
        serial: run.serial,
        lengths: run.lengths.map((l) => (
          { drafts: l.drafts, plays: l.plays, accepted_at: [...l.acceptedAt] }
        )),
        serial_ns: [...serialNs],
        serial_tps: rate(run.tokens, serial),
        ...gainsOf(serialNs, runs.map((r) => r.ns), foretold),
        forced: plays.map((play, at) => ({
          ...play,
          ns: beside.map(({ playNs }) => playNs[at] === null ? null : Math.round(playNs[at])),
        })),
        chains: beside.flatMap(({ chain }) =>
          chain === null ? [] : [{
            ns: chain.ns,
            rounds: chain.length.plays,
            accepted_at: [...chain.length.acceptedAt],
          }]
        ),
        propose_ns: beside.map((times) => Math.round(times.proposeNs)),
        foretold_ns: foretold.map((ns) => ns === null ? null : Math.round(ns)),
        shares: sharesOf(runs, commitNs, curve, work),
        prompt_hit_rate: hits.prompt,
        output_hit_rate: hits.output,
      },
    },
  };
}

/**
 * Turn by turn: a busy moment meets serial decode and the run beside it, where the medians of each by itself may
 * fall into different moments.
 */
export function gainsOf(
  serialNs: readonly number[],
  runNs: readonly number[],
  foretoldNs: readonly (number | null)[],
) {
  const gains = runNs.map((ns, i) => serialNs[i] / Math.max(1, ns));
  const foretold = foretoldNs.flatMap((ns, i) => ns === null ? [] : [serialNs[i] / ns]);
  // One block of all turns would be drawn again and again: an interval without width.
  const block = Math.min(BLOCK_MAX, Math.max(1, Math.floor(gains.length * BLOCK_SHARE)));
  const ci = bootstrapMedianCi(gains, { ...BOOTSTRAP, block });
  return {
    speedup: median(gains),
    speedup_ci95: ci && [ci.lo, ci.hi] satisfies [number, number],
    foretold_speedup: foretold.length > 0 ? median(foretold) : null,
  };
}

/** Where the time of a run went, by the middle ones. */
function sharesOf(
  runs: readonly RunOfRounds[],
  commitNs: number,
  curve: VerifyCurve | null,
  { drafter, drafts }: SpeculateWork,
) {
  const of = (pick: (r: RunOfRounds) => number) => median(runs.map(pick));
  const total = Math.max(1, of((r) => r.ns)), device = of((r) => r.deviceNs);
  const point = curve?.points.find((p) => p.rows === drafts + 1);
  // Of a width that the sweep left out it is not known what the head's part of a round was.
  const isKnown = drafter !== "mtp" || point !== undefined;
  const onDevice = drafter === "mtp" ? point?.draftNs ?? 0 : 0;
  const share = (ns: number) => Math.min(1, Math.max(0, ns) / total);
  const { rounds } = runs[0];
  const draft = of((r) => r.draftNs) + rounds * Math.max(0, onDevice), commit = rounds * commitNs;
  return {
    draft: isKnown ? share(draft) : null,
    verify: isKnown ? share(device - commit - rounds * Math.max(0, onDevice)) : null,
    commit: share(commit),
    host: share(total - device - of((r) => r.draftNs)),
  };
}
