/**
 * Two stored reports against each other. They were not measured together, so drift between them looks like a
 * change: only samples that lie far apart prove anything. Pure.
 */
import type { CompareRow, CompareSettings } from "./compare_report.ts";
import { isComparable, type Report, type Row } from "./report.ts";
import {
  detectableFrom,
  type Interval,
  mad,
  MAD_TO_SIGMA,
  median,
  percentileInterval,
  randomFrom,
  resampledMedians,
} from "./stats.ts";

/** Machines drift by some percent between two runs; less than this is never called a change. */
const DRIFT_ALLOWANCE = 0.1;
const SAMPLES_MIN = 6;

export function compareStored(base: Report, head: Report, settings: CompareSettings): CompareRow[] {
  const ids = [...new Set([...base.rows, ...head.rows].map((r) => r.id))];
  return ids.map((id) => {
    const a = base.rows.find((r) => r.id === id), b = head.rows.find((r) => r.id === id);
    return compareRow(id, a, b, settings);
  });
}

function compareRow(
  id: string,
  a: Row | undefined,
  b: Row | undefined,
  settings: CompareSettings,
): CompareRow {
  const any = (a ?? b)!;
  const row: CompareRow = {
    id,
    kind: any.kind,
    tokens: any.params.n_gen || any.params.n_prompt,
    depth: any.params.n_depth,
    status: "ok",
    outputs: null,
    repeats: 1,
    settling: null,
    anchor_median: null,
    pairs: [],
    unpaired: null,
    estimate: null,
    outcome: "inconclusive",
    why: "",
  };
  const fail = (why: string): CompareRow => ({
    ...row,
    status: "error",
    error: why,
    outcome: "error",
    why,
  });
  if (!a || !b) return fail(`missing in ${a ? "head" : "base"}`);
  for (const [side, r] of [["base", a], ["head", b]] as const) {
    if (!isComparable(r)) return fail(`${side}: ${r.error ?? `${r.status}, not comparable`}`);
    if (r.samples_ns.length === 0 || r.samples_ns.some((ns) => ns === 0)) {
      return fail(`${side}: there is no rate`);
    }
  }
  if (JSON.stringify(a.params) !== JSON.stringify(b.params)) return fail("other settings in head");
  return judgeSamples(row, a, b, settings);
}

function judgeSamples(row: CompareRow, a: Row, b: Row, settings: CompareSettings): CompareRow {
  const hashes = [a.check.output_sha256, b.check.output_sha256];
  const outputs = {
    base: hashes[0] ?? "",
    head: hashes[1] ?? "",
    equal: hashes[0] === hashes[1],
  };
  if (!outputs.equal && settings.output_change === null) {
    return { ...row, outputs, outcome: "incomparable", why: "base and head make different tokens" };
  }
  const rates = (r: Row) => r.samples_ns.map((ns) => 1e9 * r.tokens_per_sample / ns);
  const baseRates = rates(a), headRates = rates(b);
  const { ratio, ci, standardError } = unpairedRatio(baseRates, headRates, settings);
  return {
    ...row,
    outputs,
    unpaired: {
      base_ns: a.samples_ns,
      head_ns: b.samples_ns,
      base_steps: a.tokens_per_sample,
      head_steps: b.tokens_per_sample,
    },
    estimate: {
      pairs: Math.min(a.samples_ns.length, b.samples_ns.length),
      ratio,
      ci: [ci.lo, ci.hi],
      hodges_lehmann: ratio,
      sign_p: 1,
      p_slower: 1,
      p_held: 1,
      mde: detectableFrom(standardError, settings.confidence),
      sigma: Math.hypot(spread(baseRates), spread(headRates)),
    },
    ...separation(baseRates, headRates, ratio, settings.tolerance),
  };
}

function spread(rates: readonly number[]): number {
  return MAD_TO_SIGMA * mad([...rates]) / median([...rates]);
}

/** Ratio of medians; both sides are resampled on their own. */
function unpairedRatio(
  base: readonly number[],
  head: readonly number[],
  { confidence, resamples, seed }: CompareSettings,
): { ratio: number; ci: Interval; standardError: number } {
  const a = resampledMedians(base, { resamples, seed });
  const b = resampledMedians(head, { resamples, seed: seed + 1 });
  const random = randomFrom(seed + 2), draw = () => Math.floor(random() * resamples);
  const logs = Float64Array.from({ length: resamples }, () => Math.log(b[draw()] / a[draw()]))
    .sort();
  const { lo, hi } = percentileInterval(logs, confidence);
  const middle = percentileInterval(logs, 0.6827);
  return {
    ratio: median([...head]) / median([...base]),
    ci: { lo: Math.exp(lo), hi: Math.exp(hi) },
    standardError: (middle.hi - middle.lo) / 2,
  };
}

function separation(
  base: readonly number[],
  head: readonly number[],
  ratio: number,
  tolerance: number,
): Pick<CompareRow, "outcome" | "why"> {
  const enough = Math.min(base.length, head.length) >= SAMPLES_MIN;
  const least = 1 - Math.max(tolerance, DRIFT_ALLOWANCE);
  if (enough && ratio < least && Math.max(...head) < (1 - tolerance) * Math.min(...base)) {
    return { outcome: "fail", why: "every sample of head is slower, by more than machines drift" };
  }
  if (enough && ratio > 2 - least && Math.min(...head) > Math.max(...base)) {
    return { outcome: "pass", why: "every sample of head is faster, by more than machines drift" };
  }
  return {
    outcome: "inconclusive",
    why: "stored reports were not measured together: compare two libraries or refs",
  };
}
