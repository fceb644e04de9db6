/** What a gate gets and what it says, as types, and the look-ups that all of its rules share. */
import type { Baseline } from "./baseline.ts";
import type { GateDocuments, HistoryPoint, MeasuredRow } from "./gate_documents.ts";
import { matches, type Mode, type Policy, type Rule } from "./policy.ts";
import type { Estimate } from "./verdict.ts";
import type { Verdict } from "./verdict_line.ts";

export type GateOutcome =
  | "pass"
  | "fail"
  | "inconclusive"
  | "changed"
  | "error"
  | "missing"
  | "environment";

export interface Finding {
  readonly outcome: GateOutcome;
  /** What was found, without the row's name. */
  readonly text: string;
}

export interface GateInput extends GateDocuments {
  readonly policy: Policy;
  readonly baselines: readonly Baseline[];
  readonly history: readonly HistoryPoint[];
  readonly now: Date;
}

export interface GateRow extends Finding {
  readonly id: string;
  readonly metric: string;
  readonly mode: Mode | "cumulative";
  readonly required: boolean;
  readonly estimate: Estimate | null;
}

export interface CumulativeChange {
  readonly id: string;
  readonly metric: string;
  readonly ratio: number;
  readonly since: string;
  readonly accepted: number;
}

export interface GateResult {
  readonly verdict: Verdict;
  /** Worst first. */
  readonly rows: readonly GateRow[];
  readonly cumulative: readonly CumulativeChange[];
  /** What a reader must know although it changes no verdict. */
  readonly notes: readonly string[];
}

/** Rows that a rule judges: pairs from comparisons, anything else from reports where they have the row. */
export function candidates(rule: Rule, measured: readonly MeasuredRow[]): MeasuredRow[] {
  const fitting = measured.filter((r) => matches(rule.match, r.id));
  if (rule.mode === "paired") return fitting.filter((r) => r.paired);
  const reported = fitting.filter((r) => !r.paired);
  const compared = fitting.filter((r) => r.paired && !reported.some((o) => o.id === r.id));
  return [...reported, ...compared];
}

export function identity({ metric, mode, required }: Rule, { id }: MeasuredRow) {
  return { id, metric, mode, required };
}

export function baselineOf(fingerprint: string, { baselines }: GateInput): Baseline | undefined {
  return baselines.find((b) => b.fingerprint === fingerprint);
}
