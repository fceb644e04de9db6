/**
 * Rows of rounds and of serial steps to curves, place by place: what a report, a table and a picture say
 * about speculation. Pure: a reader computes the same from the rows.
 */
import { ROUND_ROWS_MAX } from "./grid.ts";
import { type Curve, isComparable, type Row, type Spec } from "./report.ts";
import {
  bestLength,
  breakEven,
  crossover,
  marginalNs,
  survivalGiven,
  type VerifyCurve,
  type VerifyPoint,
} from "./spec_figures.ts";
import { quantile } from "./stats.ts";

/** Settings that rows of one curve share. */
function placeOf({ params: p }: Row): string {
  return JSON.stringify([p.n_depth, p.kv_type, p.threads, p.prefill_rows]);
}

/** Whether a row is one of a sweep's: what runs of rounds and plain verifications are not. */
function isPoint(row: Row): boolean {
  return row.kind === "verify" && isComparable(row) && row.stats !== null &&
    (row.rounds !== null || row.params.rows! > ROUND_ROWS_MAX);
}

/** Other programs only make times longer: the least tenth is nearer to what a play takes than the middle. */
export function undisturbed(ns: readonly number[]): number {
  return quantile(ns, 0.1);
}

/**
 * A row's round on the scale of `stepNs`, through the steps that were timed beside it: a busy moment slows
 * both. Commits are told by their own records.
 */
function pointOf(row: Row, stepNs: number): VerifyPoint {
  const { rounds } = row, rows = row.params.rows!, ns = undisturbed(row.samples_ns);
  if (!rounds) return { rows, verifyNs: ns, halfNs: null, allNs: null, draftNs: 0 };
  const scale = stepNs / undisturbed(rounds.step_ns);
  const extra = (at: number) => scale * (rounds.commit_ns[at] - rounds.commit_ns[0]);
  const last = rounds.accepted.length - 1;
  return {
    rows,
    verifyNs: scale * ns,
    halfNs: last > 1 ? extra(1) : null,
    allNs: last > 0 ? extra(last) : null,
    draftNs: rounds.draft_ns ? scale * (undisturbed(rounds.draft_ns) - ns) : 0,
  };
}

/** The curve of the place where `row` was measured; null without a serial step. */
export function curveAt(rows: readonly Row[], row: Row): VerifyCurve | null {
  const near = rows.filter((r) => placeOf(r) === placeOf(row));
  const steps = near.filter((r) => r.kind === "decode" && isComparable(r) && r.stats?.median_tps);
  // Of several lengths of calls the longest: it costs the host least.
  const step = steps.sort((a, b) => (b.params.call_tokens ?? 0) - (a.params.call_tokens ?? 0))[0];
  if (!step) return null;
  const stepNs = undisturbed(step.samples_ns) / step.tokens_per_sample;
  const points = near.filter(isPoint).map((r) => pointOf(r, stepNs))
    .sort((a, b) => a.rows - b.rows);
  return points.length > 0 ? { stepNs, chainedNs: chainedNs(near, points, stepNs), points } : null;
}

/** Rounds of the model's head chain within a call, whose cost a round of one row has beside its step. */
function chainedNs(near: readonly Row[], points: readonly VerifyPoint[], stepNs: number): number {
  const single = points.find((p) => p.rows === 1);
  if (!single || !near.some((row) => row.rounds?.draft_ns)) return 0;
  return Math.max(0, single.verifyNs - stepNs);
}

/** One curve a place, in the order of the rows; none without a sweep. */
export function verifyCurves(rows: readonly Row[], spec: Spec): Curve[] {
  if (!spec.verify_sweep) return [];
  const places = Map.groupBy(rows.filter(isPoint), placeOf);
  return [...places.values()].flatMap((points) => {
    const curve = curveAt(rows, points[0]);
    return curve ? [reported(curve, points, rows, spec)] : [];
  });
}

function reported(curve: VerifyCurve, points: Row[], rows: readonly Row[], spec: Spec): Curve {
  const { stepNs } = curve, [first] = points;
  return {
    id: first.id.replace(/^verify\d+/, "verify"),
    n_depth: first.params.n_depth,
    step_ns: stepNs,
    points: curve.points.map((p) => {
      const row = points.find((r) => r.params.rows === p.rows)!, commit = row.rounds?.commit_ns;
      return {
        rows: p.rows,
        verify_ns: p.verifyNs,
        cost: p.verifyNs / stepNs,
        cost_per_row: p.verifyNs / (p.rows * stepNs),
        marginal_ns: marginalNs(curve, p.rows),
        commit_ns: commit ? [commit[0], commit[commit.length >> 1], commit.at(-1)!] : null,
        host_ns: hostNs(row),
        draft_ns: row.rounds?.draft_ns ? p.draftNs : null,
        distinct_experts: row.moe?.distinct_experts_mean ?? null,
        route: routeOf(row),
        breakeven: p.rows > 1 && row.rounds ? breakEven(curve, p.rows - 1) : null,
      };
    }),
    crossover_rows: crossover(curve),
    best: bestOf(curve, rows.filter((r) => placeOf(r) === placeOf(first)), spec),
  };
}

/** Records that are timed one by one may take longer than together: then it is not known. */
function hostNs({ rounds, dispatch, samples_ns }: Row): number | null {
  if (!rounds || !dispatch || dispatch.device_ns === null) return null;
  const ns = Math.round(undisturbed(samples_ns) - dispatch.device_ns);
  return ns >= 0 ? ns : null;
}

/** Kernels of products: the route changes with the rows. */
function routeOf(row: Row): string[] {
  const names = row.dispatch?.kernels.map((k) => k.name) ?? [];
  return names.filter((n) => /gem[vm]|^moe_/.test(n)).sort();
}

function bestOf(curve: VerifyCurve, rows: readonly Row[], spec: Spec): Curve["best"] {
  const given = spec.verify_sweep!.acceptance;
  const sources = [
    ...given
      ? [{ source: "given", survival: survivalGiven(given, ROUND_ROWS_MAX - 1), singles: 0 }]
      : [],
    ...rows.filter((r) => r.kind === "speculate" && isComparable(r) && r.spec?.rounds)
      .map(({ id, spec }) => ({
        source: id,
        survival: spec!.per_position,
        // The head drafts in every round but for the first.
        singles: spec!.run!.drafter === "mtp" ? 0 : spec!.run!.serial / spec!.rounds,
      })),
  ];
  return sources.map(({ source, survival, singles }) => {
    const { drafts, speedup, tokens } = bestLength(curve, survival, singles);
    return { source, survival, singles, drafts, speedup, tokens_per_round: tokens };
  });
}
