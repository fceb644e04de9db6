/**
 * Every figure that a row derives from its raw times: rates, spread, drift, the share of the limit. Pure, so
 * that a reader can compute a report again; takes no samples.
 */
import type { WorkCost } from "./port.ts";
import type { Row, RowLimit, RowStats } from "./report.ts";
import { bootstrapMedianCi, countOutliers, mad, mean, median, theilSen } from "./stats.ts";

/** The raw part of a row: what figures are made of. */
export type RawRow = Pick<
  Row,
  "kind" | "samples_ns" | "tokens_per_sample" | "per_token_ns" | "calls" | "parts"
>;

const EDGE_TOKENS = 32;
const RESAMPLES = 10_000;
const SEED = 1;

/** Tokens a second; null where no time or no token was counted. */
export function rate(tokens: number, ns: number): number | null {
  return tokens > 0 && ns > 0 ? tokens * 1e9 / ns : null;
}

/**
 * The rate of each sample. A prompt with tokens behind it has the rate of the gaps between those tokens:
 * a blend of both parts would mean nothing. Empty where some sample has none.
 */
export function sampleRates(raw: RawRow): number[] {
  if (raw.kind === "load") return [];
  const { parts } = raw;
  const rates = parts
    ? parts.decode_ns.map((ns) => rate(parts.decode_intervals, ns))
    : raw.samples_ns.map((ns) => rate(raw.tokens_per_sample, ns));
  return rates.every((r) => r !== null) ? rates as number[] : [];
}

export function statsOf(raw: RawRow): RowStats | null {
  if (raw.samples_ns.length === 0) return null;
  const n = raw.samples_ns.length, rates = sampleRates(raw);
  const medianNs = Math.round(median(raw.samples_ns));
  if (rates.length === 0) {
    const none = {
      median_tps: null,
      mean_tps: null,
      ci95: null,
      mad_pct: null,
      min: null,
      max: null,
    };
    const edges = { steady_tps: null, first32_tps: null, last32_tps: null, drift_pct: null };
    return { n, median_ns: medianNs, ...none, outliers: countOutliers(raw.samples_ns), ...edges };
  }
  const middle = median(rates);
  const ci = bootstrapMedianCi(rates, { confidence: 0.95, resamples: RESAMPLES, seed: SEED });
  return {
    n,
    median_ns: medianNs,
    median_tps: middle,
    mean_tps: mean(rates),
    ci95: ci && [ci.lo, ci.hi],
    mad_pct: 100 * mad(rates) / middle,
    min: Math.min(...rates),
    max: Math.max(...rates),
    outliers: countOutliers(rates),
    ...edgeRates(raw),
    drift_pct: driftPct(rates, middle),
  };
}

function driftPct(rates: readonly number[], middle: number): number | null {
  if (rates.length < 3) return null;
  const slope = theilSen(rates.map((_, i) => i), rates);
  return slope && 100 * slope.slope * (rates.length - 1) / middle;
}

/** Whether the drift's interval leaves out zero. */
export function driftIsSure(rates: readonly number[]): boolean {
  const slope = rates.length < 5 ? null : theilSen(rates.map((_, i) => i), rates);
  return slope !== null && (slope.lo > 0 || slope.hi < 0);
}

/** Tokens and times of the steps of each sample, as finely as they were timed. */
function stepsOf(raw: RawRow): { readonly tokens: number; readonly ns: number }[][] {
  if (raw.per_token_ns) {
    return raw.per_token_ns.map((all) => all.map((ns) => ({ tokens: 1, ns })));
  }
  const { calls } = raw;
  if (!calls) return [];
  return calls.ns.map((all) => all.map((ns, i) => ({ tokens: calls.tokens[i], ns })));
}

/** Medians over the samples; null where steps do not end at the 32nd token from an edge. */
function edgeRates(raw: RawRow): Pick<RowStats, "steady_tps" | "first32_tps" | "last32_tps"> {
  const samples = stepsOf(raw);
  const over = (pick: (steps: { tokens: number; ns: number }[]) => number | null) => {
    const rates = samples.map(pick);
    return rates.length > 0 && rates.every((r) => r !== null) ? median(rates as number[]) : null;
  };
  return {
    steady_tps: over((steps) => {
      const edge = splitAt(steps, EDGE_TOKENS);
      return edge === null ? null : rateOf(steps.slice(edge));
    }),
    first32_tps: over((steps) => {
      const edge = splitAt(steps, EDGE_TOKENS);
      return edge === null ? null : rateOf(steps.slice(0, edge));
    }),
    last32_tps: over((steps) => {
      const total = steps.reduce((sum, s) => sum + s.tokens, 0);
      const edge = total >= 2 * EDGE_TOKENS ? splitAt(steps, total - EDGE_TOKENS) : null;
      return edge === null ? null : rateOf(steps.slice(edge));
    }),
  };
}

/** How many steps make exactly so many tokens, where they do. */
function splitAt(steps: readonly { tokens: number }[], tokens: number): number | null {
  let sum = 0;
  for (let i = 0; i < steps.length; i++) {
    sum += steps[i].tokens;
    if (sum === tokens) return i + 1;
    if (sum > tokens) return null;
  }
  return null;
}

function rateOf(steps: readonly { tokens: number; ns: number }[]): number | null {
  const tokens = steps.reduce((sum, s) => sum + s.tokens, 0);
  return rate(tokens, steps.reduce((sum, s) => sum + s.ns, 0));
}

/** The limit that memory sets to a rate, and how near the median came. */
export function limitOf(cost: WorkCost, medianTps: number | null, bytesPerS: number): RowLimit {
  const { weights, kv, state, flops, playBytes } = cost;
  const bytes = weights + kv + state, tpsLimit = bytes > 0 ? bytesPerS / bytes : null;
  const known = medianTps !== null && tpsLimit !== null;
  return {
    bytes_per_token: { weights, kv, state },
    flops_per_token: flops,
    gb_s: medianTps === null ? null : bytes * medianTps / 1e9,
    working_set_bytes: playBytes,
    measured_gb_s: bytesPerS / 1e9,
    pct_of_measured_bw: known ? 100 * medianTps / tpsLimit : null,
    tps_limit: tpsLimit,
    ms_lost_per_token: known ? 1e3 / medianTps - 1e3 / tpsLimit : null,
  };
}
