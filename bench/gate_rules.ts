/** One rule of a policy against one measured row: floor, history and budget. Pure. Pairs are in gate.ts. */
import { describeMachine } from "./fingerprint.ts";
import type { HistoryPoint, MeasuredRow } from "./gate_documents.ts";
import type { Finding } from "./gate_result.ts";
import type { Policy, Rule } from "./policy.ts";
import { mad, MAD_TO_SIGMA, median } from "./stats.ts";

export function judgeFloor(rule: Rule, row: MeasuredRow): Finding {
  const value = row.value(rule.metric);
  if (value === null || !(value > 0)) return noValue(rule);
  const machine = describeMachine(row.env);
  const names = [row.env.cpu, ...row.env.gpus.map((g) => g.name)];
  const known = Object.entries(rule.minTps).find(([name]) => names.some((n) => n.includes(name)));
  if (!known) {
    return { outcome: "environment", text: `no floor is stated for this machine (${machine})` };
  }
  const [name, floor] = known;
  const [lo, hi] = row.interval ?? [-Infinity, Infinity];
  const ci = row.interval ? ` (95% CI ${rate(lo)}..${rate(hi)})` : "";
  const text = `${rate(value)} tok/s${ci}, floor ${rate(floor)} for ${name}`;
  if (hi < floor) return { outcome: "fail", text };
  return { outcome: lo >= floor ? "pass" : "inconclusive", text };
}

export function judgeLimit(rule: Rule, row: MeasuredRow): Finding {
  const value = row.value(rule.metric);
  if (value === null) return noValue(rule);
  const bounds = [
    ...(rule.min === null ? [] : [`at least ${rule.min}`]),
    ...(rule.max === null ? [] : [`at most ${rule.max}`]),
  ].join(" and ");
  const holds = value >= (rule.min ?? -Infinity) && value <= (rule.max ?? Infinity);
  const shown = Number(value.toPrecision(6));
  return { outcome: holds ? "pass" : "fail", text: `${rule.metric} ${shown}, ${bounds}` };
}

/** The fence of a history is never narrower than this share of its median. */
const FENCE_MIN = 0.005;

/**
 * The new point against the last ones of this machine. One point outside asks for a comparison, since runs of
 * different days differ for many reasons; a second one in a row fails.
 */
export function judgeHistory(
  rule: Rule,
  row: MeasuredRow,
  history: readonly HistoryPoint[],
  options: Policy["history"],
): Finding {
  const value = row.value(rule.metric);
  if (value === null || !(value > 0)) return noValue(rule);
  const { points = 20, points_min: least = 5, k = 4 } = options;
  const values = history.filter((p) => p.fingerprint === row.fingerprint)
    .sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
    .map((p) => p.value(row.id, rule.metric)).filter((x) => x !== null).slice(-points);
  const shown = rule.metric.endsWith("tps") ? `${rate(value)} tok/s` : String(value);
  if (values.length < least) {
    const text = `${shown}, ${values.length} of ${least} points of history on this machine yet`;
    return { outcome: "inconclusive", text };
  }
  const fence = fenceOf(values, k);
  const text = `${shown}, history ${rate(fence.center)} +- ${rate(fence.reach)} (${values.length})`;
  if (!isWorse(rule.metric, value, fence)) return { outcome: "pass", text };
  const before = values.slice(0, -1);
  const again = before.length >= least && isWorse(rule.metric, values.at(-1)!, fenceOf(before, k));
  return again
    ? { outcome: "fail", text: `${text}, the second time in a row` }
    : { outcome: "inconclusive", text: `${text}, for the first time: compare with the base now` };
}

function fenceOf(values: readonly number[], k: number) {
  const center = median([...values]);
  const sigma = MAD_TO_SIGMA * mad([...values]);
  return { center, reach: Math.max(k * sigma, FENCE_MIN * center) };
}

/** Times and bytes are better when small, everything else when large. */
function isWorse(metric: string, value: number, { center, reach }: ReturnType<typeof fenceOf>) {
  return /(_ns|bytes|joules|j_per_token|peak)$/.test(metric)
    ? value > center + reach
    : value < center - reach;
}

function noValue({ metric }: Rule): Finding {
  return { outcome: "error", text: `there is no ${metric}` };
}

function rate(x: number): string {
  return Math.abs(x) >= 1000 ? String(Math.round(x)) : x.toFixed(Math.abs(x) < 10 ? 2 : 1);
}
