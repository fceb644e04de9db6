/** Samples and facts to rows of a report. Assembles; measures nothing. */
import { type Cell, paramsOf, tokensOf } from "./grid.ts";
import { limitOf, type RawRow, statsOf } from "./figures.ts";
import type { Copied, FormCheck, RoutingFacts, WorkCost } from "./port.ts";
import type { Dispatch, Energy, Row, RowCheck, RowMemory, Spec } from "./report.ts";
import { decodeSteps, type Samples } from "./sample.ts";
import { median } from "./stats.ts";
import { type Circumstances, validityOf } from "./validity.ts";

const NO_CHECK: RowCheck = {
  output_sha256: null,
  reference: null,
  compared_tokens: 0,
  matched_tokens: 0,
  first_divergence: null,
  max_logit_nmse: null,
  rounding_nmse: null,
  routing_match: null,
  repeatable: null,
  ok: false,
};

/** A row of a cell that has no numbers, at least not yet. */
export function emptyRow(cell: Cell, spec: Spec): Row {
  return {
    id: cell.id,
    kind: cell.kind,
    params: paramsOf(cell, spec),
    status: "skipped",
    validity: { verdict: "valid", reasons: [] },
    samples_ns: [],
    tokens_per_sample: cell.work ? tokensOf(cell.work) : 0,
    calls: null,
    parts: null,
    warmup_ns: [],
    warmup_tokens: 0,
    order_index: [],
    started_offset_ns: [],
    stats: null,
    ttft_ns: null,
    cached_tokens: 0,
    memory: null,
    energy: null,
    limit: null,
    dispatch: null,
    moe: null,
    spec: null,
    rounds: null,
    copy: null,
    quality: null,
    check: NO_CHECK,
    absent: {},
  };
}

export function errorRow(cell: Cell, spec: Spec, error: string): Row {
  return { ...emptyRow(cell, spec), status: "error", error };
}

/** Everything that is known of a cell once its samples are taken. */
export interface CellFacts {
  readonly cell: Cell;
  readonly spec: Spec;
  readonly samples: Samples;
  /** Places of the samples in the order of the whole run. */
  readonly orderIndex: readonly number[];
  readonly promptSha256: string;
  readonly form: FormCheck;
  readonly routing: RoutingFacts | null;
  readonly cost: WorkCost;
  /** Bytes a second of a working set like this cell's. */
  readonly bandwidth: number;
  readonly dispatch: Omit<Dispatch, "gap_ns">;
  readonly memory: RowMemory;
  readonly circumstances: Circumstances;
  /** Positions that the model was made for. */
  readonly contextMax: number;
  readonly energySource: Energy["source"] | { readonly absent: string };
}

export function measuredRow(facts: CellFacts): Row {
  const { cell, spec, samples, routing } = facts;
  const raw = rawOf(facts), stats = statsOf(raw);
  const check = checkOf(facts),
    limit = limitOf(facts.cost, stats?.median_tps ?? null, facts.bandwidth);
  const prefills = samples.times.map((t) => t.prefillNs).filter((ns) => ns !== null);
  const row: Row = {
    ...emptyRow(cell, spec),
    params: { ...paramsOf(cell, spec), prompt_sha256: facts.promptSha256 },
    status: "ok",
    validity: validityOf(raw, stats, facts.circumstances),
    ...raw,
    warmup_ns: [...samples.warmupNs],
    warmup_tokens: samples.warmupTokens,
    order_index: [...facts.orderIndex],
    started_offset_ns: samples.times.map((t) => t.startedNs),
    stats,
    ttft_ns: prefills.length > 0 ? Math.round(median(prefills)) : null,
    memory: facts.memory,
    energy: energyOf(facts, raw),
    limit,
    dispatch: { ...facts.dispatch, gap_ns: gapOf(facts) },
    moe: routing && {
      distinct_experts_mean: routing.distinct(facts.dispatch.rows),
      imbalance: routing.imbalance,
      sampled_tokens: routing.sampledTokens,
    },
    check,
    absent: {},
  };
  const absent = reasonsOf(row, facts);
  const share = limit.pct_of_measured_bw;
  // More than the memory can give means that bytes or time were counted wrongly.
  if (share !== null && share > 100) {
    const error = `${
      share.toFixed(1)
    } % of the measured bandwidth: bytes or times are counted wrongly`;
    return { ...row, status: "error", error, absent };
  }
  return { ...row, absent };
}

function rawOf({ cell, spec, samples }: CellFacts): RawRow {
  const work = cell.work!, { times, calls } = samples;
  const steps = decodeSteps(work);
  const callNs = times.map((t) => [...t.callNs]);
  return {
    kind: cell.kind,
    samples_ns: times.map((t) => t.ns),
    tokens_per_sample: tokensOf(work),
    ...(spec.token_times && steps > 0 ? { per_token_ns: callNs } : {}),
    calls: spec.token_times || steps === 0 ? null : { tokens: [...calls], ns: callNs },
    parts: work.kind === "prompt_decode"
      ? {
        prefill_ns: times.map((t) => t.prefillNs!),
        decode_ns: times.map((t) => t.ns - t.prefillNs!),
        decode_intervals: steps,
      }
      : null,
  };
}

function checkOf({ samples, form }: CellFacts): RowCheck {
  const digests = samples.times.map((t) => t.digest);
  const same = digests.every((d) => d === digests[0]);
  return {
    output_sha256: digests[0] ?? null,
    reference: "one_row",
    compared_tokens: form.compared,
    matched_tokens: form.matched,
    first_divergence: form.firstDivergence,
    max_logit_nmse: form.maxLogitNmse,
    rounding_nmse: form.roundingNmse,
    routing_match: form.routingMatch,
    repeatable: digests.length > 1 ? same : null,
    ok: form.ok && same && digests.length > 0,
  };
}

/**
 * Time of one play that its records do not account for; only decode is made of equal plays. Records that are
 * timed one by one may take longer than together.
 */
function gapOf({ cell, samples, dispatch }: CellFacts): number | null {
  const steps = decodeSteps(cell.work!);
  if (dispatch.device_ns === null || cell.kind !== "decode" || steps === 0) return null;
  const gap = Math.round(median(samples.times.map((t) => t.ns)) / steps - dispatch.device_ns);
  return gap >= 0 ? gap : null;
}

function energyOf(facts: CellFacts, raw: RawRow): Energy | null {
  const { joules, times } = facts.samples, source = facts.energySource;
  if (joules === null || typeof source !== "string") return null;
  const ns = times.reduce((sum, t) => sum + t.ns, 0), tokens = raw.tokens_per_sample * times.length;
  if (ns === 0) return null;
  return {
    joules,
    j_per_token: tokens > 0 ? joules / tokens : null,
    avg_w: joules * 1e9 / ns,
    source,
  };
}

/** Why a field is null, for those that a reader would look for. */
function reasonsOf(row: Row, facts: CellFacts): Record<string, string> {
  const { energySource, samples, contextMax } = facts, out: Record<string, string> = {};
  if (row.params.n_depth + row.tokens_per_sample > contextMax) {
    out.quality = `positions beyond the ${contextMax} that the model was made for`;
  }
  if (row.energy === null && typeof energySource !== "string") out.energy = energySource.absent;
  if (row.stats && row.stats.median_tps === null) out["stats.median_tps"] = "no time was measured";
  else if (row.stats && row.stats.ci95 === null) out["stats.ci95"] = "one sample has no interval";
  if (row.stats?.drift_pct === null) out["stats.drift_pct"] = "fewer than three samples";
  if (row.stats?.steady_tps === null) {
    out["stats.steady_tps"] = "not timed behind the first 32 tokens";
  }
  if (row.dispatch?.gap_ns === null) {
    out["dispatch.gap_ns"] = row.kind === "decode"
      ? "records timed one by one took longer than the play"
      : "plays of several sizes";
  }
  if (row.moe === null) out.moe = "the model has no experts";
  if (row.memory?.peak === null) out["memory.peak"] = "this system does not tell";
  if (row.check.repeatable === null) {
    out["check.repeatable"] = `${samples.times.length} sample repeats nothing`;
  }
  return out;
}

/**
 * A row of loading with what was copied in each sample, held against the copying of pinned memory in bytes a second;
 * where nothing was copied, it says why.
 */
export function withCopies(
  row: Row,
  copies: readonly (Copied | null)[],
  limit: number | null,
): Row {
  const known = copies.filter((c) => c !== null);
  if (known.length < copies.length) {
    const copy = "files are used where they lie, or weights are made";
    return { ...row, absent: { ...row.absent, copy } };
  }
  const { bytes } = known[0], ns = known.map((c) => c.ns), middle = median(ns);
  const gb_s = middle > 0 ? bytes / middle : null, limit_gb_s = limit && limit / 1e9;
  const pct_of_limit = gb_s && limit_gb_s && 100 * gb_s / limit_gb_s;
  const held = { ...row, copy: { bytes, ns, gb_s, limit_gb_s, pct_of_limit } };
  if (pct_of_limit === null || pct_of_limit <= 100) return held;
  const share = `${pct_of_limit.toFixed(1)} % of what pinned memory is copied at`;
  return { ...held, status: "error", error: `${share}: bytes or times are counted wrongly` };
}
