/**
 * The gate: every rule of a policy against what was measured, and one verdict. Owns pairing rules with rows,
 * correction over all rows, what is missing, and cumulative change. Reads and prints nothing.
 */
import { cumulativeChange, isExpired } from "./baseline.ts";
import type { Comparison } from "./compare_report.ts";
import { describeMachine } from "./fingerprint.ts";
import { type MeasuredRow, rowsOfComparison, rowsOfReport } from "./gate_documents.ts";
import { judgePairs } from "./gate_pairs.ts";
import {
  baselineOf,
  candidates,
  type CumulativeChange,
  type Finding,
  type GateInput,
  type GateOutcome,
  type GateResult,
  type GateRow,
  identity,
} from "./gate_result.ts";
import { judgeFloor, judgeHistory, judgeLimit } from "./gate_rules.ts";
import { matches, type Policy, type Rule, rulesOf } from "./policy.ts";
import type { Environment } from "./report.ts";
import { percent, rowNotes, type Verdict } from "./verdict_line.ts";

/** Judges all rows. Throws UserError where the policy asks for what this machine cannot tell. */
export function runGate(input: GateInput): GateResult {
  const { policy } = input;
  const rules = rulesOf(policy);
  const measured = [
    ...input.comparisons.flatMap(rowsOfComparison),
    ...input.reports.flatMap(rowsOfReport),
  ].map((row) => withPolicy(row, policy));
  const rows = [
    ...judgePairs(rules, measured, input),
    ...rules.filter((r) => r.mode !== "paired").flatMap((r) => plainRows(r, measured, input)),
    ...rules.flatMap((r) => missingRows(r, measured, input)),
  ];
  const cumulative = cumulativeChanges(measured, input);
  const all = bySeverity([...rows, ...cumulativeRows(cumulative, policy)]);
  return { verdict: verdictOf(all), rows: all, cumulative, notes: notesOf(input, measured) };
}

/** A row that was measured elsewhere than the policy demands, or whose checks it does not ask for. */
function withPolicy(row: MeasuredRow, policy: Policy): MeasuredRow {
  const mismatch = environmentMismatch(row.env, policy);
  if (mismatch) return { ...row, problem: { outcome: "environment", why: mismatch } };
  const waived = row.problem?.outcome === "changed" && !policy.require_checks && !row.paired;
  return waived ? { ...row, problem: null } : row;
}

function environmentMismatch(env: Environment, policy: Policy): string | null {
  const found: Record<string, string> = {
    os: env.os,
    machine: env.machine,
    cpu: env.cpu,
    gpu: env.gpus[0]?.name ?? "none",
    backend: env.library.backend,
    isa: env.library.isa,
  };
  for (const [field, pattern] of Object.entries(policy.env)) {
    if (!matches(pattern, found[field])) {
      return `${field} is ${found[field]}, the policy demands ${pattern}`;
    }
  }
  return null;
}

function plainRows(rule: Rule, measured: readonly MeasuredRow[], input: GateInput): GateRow[] {
  return candidates(rule, measured).map((row): GateRow => ({
    ...plainFinding(rule, row, input),
    ...identity(rule, row),
    estimate: null,
  }));
}

function plainFinding(rule: Rule, row: MeasuredRow, input: GateInput): Finding {
  if (row.problem) return { outcome: row.problem.outcome, text: row.problem.why };
  if (rule.mode === "floor") return judgeFloor(rule, row);
  if (rule.mode === "limit") return judgeLimit(rule, row);
  const known = input.history.some((p) => p.fingerprint === row.fingerprint);
  if (input.history.length > 0 && !known) {
    const text = `no history of this machine (${
      describeMachine(row.env)
    }) among ${input.history.length} points`;
    return { outcome: "environment", text };
  }
  return judgeHistory(rule, row, input.history, input.policy.history);
}

/** Rules without a row, and rows that the accepted baseline has and this run lacks. */
function missingRows(rule: Rule, measured: readonly MeasuredRow[], input: GateInput): GateRow[] {
  const present = candidates(rule, measured);
  const missing = (id: string, text: string): GateRow => ({
    id,
    metric: rule.metric,
    mode: rule.mode,
    required: rule.required,
    outcome: "missing",
    text,
    estimate: null,
  });
  if (present.length === 0) {
    const what = rule.mode === "paired" ? "no comparison has" : "no report has";
    return [missing(rule.match, `${what} a row of this name`)];
  }
  const machines = new Set(measured.map((r) => r.fingerprint));
  const accepted = input.baselines.filter((b) => machines.has(b.fingerprint))
    .flatMap((b) => b.entries.at(-1)?.rows ?? [])
    .filter((r) => r.metric === rule.metric && matches(rule.match, r.id)).map((r) => r.id);
  return [...new Set(accepted)].filter((id) => !present.some((r) => r.id === id))
    .map((id) => missing(id, "the baseline has this row"));
}

/** What a row is accepted with: its rate, and its ratio where it was compared. */
export function acceptedValue(row: MeasuredRow) {
  const ratio = row.paired?.row.unpaired ? null : row.paired?.row.estimate?.ratio ?? null;
  return { value: row.value("median_tps"), ratio };
}

function cumulativeChanges(
  measured: readonly MeasuredRow[],
  input: GateInput,
): CumulativeChange[] {
  return measured.flatMap((row) => {
    const entries = baselineOf(row.fingerprint, input)?.entries ?? [];
    const { value, ratio } = acceptedValue(row);
    if (entries.length === 0 || value === null || row.problem) return [];
    const metric = "median_tps";
    const change = cumulativeChange(entries, { id: row.id, metric, value, ratio });
    if (change === null) return [];
    return [{
      id: row.id,
      metric,
      ratio: change,
      since: entries[0].accepted_at.slice(0, 10),
      accepted: entries.length,
    }];
  });
}

function cumulativeRows(changes: readonly CumulativeChange[], policy: Policy): GateRow[] {
  const tolerance = policy.cumulative_tolerance;
  if (tolerance === undefined) return [];
  return changes.filter((c) => c.ratio < 1 - tolerance).map((c): GateRow => ({
    id: c.id,
    metric: c.metric,
    mode: "cumulative",
    required: true,
    outcome: "fail",
    text: `${cumulativeText(c)}, tol ${percent(tolerance)} in all`,
    estimate: null,
  }));
}

export function cumulativeText({ ratio, since, accepted }: CumulativeChange): string {
  return `${ratio.toFixed(3)}x since ${since} (${accepted} accepted)`;
}

function notesOf(input: GateInput, measured: readonly MeasuredRow[]): string[] {
  const waived = input.comparisons.filter((c) =>
    c.settings.output_change !== null && c.outputs?.equal === false
  );
  const machines = new Set(measured.map((r) => r.fingerprint));
  const known = input.baselines.filter((b) => machines.has(b.fingerprint));
  const expired = known.filter((b) =>
    b.entries.length > 0 && isExpired(b.entries.at(-1)!, input.now)
  );
  const foreign = input.baselines.length > 0 && known.length === 0;
  return [
    ...waived.map((c) => `output changed, allowed: ${c.settings.output_change}`),
    ...input.comparisons.flatMap((c) => [...c.warnings, ...c.rows.flatMap(rowNotes)]),
    ...input.comparisons.filter(lacksNoise).map(() =>
      "no noise profile of this machine (--aa makes one)"
    ),
    ...expired.map((b) => `the baseline expired on ${b.entries.at(-1)!.expires_at.slice(0, 10)}`),
    ...(foreign ? ["the baseline is of another machine or model"] : []),
  ];
}

function lacksNoise({ noise, settings, base }: Comparison): boolean {
  return noise === null && !settings.aa && base.kind !== "report";
}

const SEVERITY: readonly GateOutcome[] = [
  "environment",
  "changed",
  "fail",
  "error",
  "missing",
  "inconclusive",
  "pass",
];

function bySeverity(rows: readonly GateRow[]): GateRow[] {
  const weight = (r: GateRow) =>
    SEVERITY.indexOf(r.outcome) + (r.required || r.outcome === "pass" ? 0 : SEVERITY.length - 1.5);
  return [...rows].sort((a, b) => weight(a) - weight(b));
}

/** Nothing that is missing, broken, changed or measured elsewhere passes. */
function verdictOf(rows: readonly GateRow[]): Verdict {
  const has = (...outcomes: GateOutcome[]) =>
    rows.some((r) => r.required && outcomes.includes(r.outcome));
  if (has("environment")) return "environment";
  if (has("changed")) return "output_changed";
  if (has("fail")) return "regression";
  if (has("error", "missing")) return "errors";
  return has("inconclusive") ? "inconclusive" : "pass";
}
