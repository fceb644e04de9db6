/** The rules that take pairs: all of them are corrected together. Pure. */
import { UserError } from "../engine/errors.ts";
import { type BaselineEntry, isExpired } from "./baseline.ts";
import { judgeOptions } from "./compare.ts";
import type { CompareRow } from "./compare_report.ts";
import type { MeasuredRow } from "./gate_documents.ts";
import {
  baselineOf,
  candidates,
  type Finding,
  type GateInput,
  type GateOutcome,
  type GateRow,
  identity,
} from "./gate_result.ts";
import { TOLERANCE_HALF_WIDTHS } from "./noise.ts";
import { logRatios } from "./pairs.ts";
import type { Rule } from "./policy.ts";
import { holm } from "./stats.ts";
import { type Estimate, estimate, judge, type JudgeOptions } from "./verdict.ts";
import { estimateText, percent } from "./verdict_line.ts";

interface PairedCase {
  readonly rule: Rule;
  readonly row: MeasuredRow;
  readonly options: JudgeOptions;
  readonly estimate: Estimate | null;
}

/** Judges every pair of rule and compared row. Throws UserError for a tolerance that noise exceeds. */
export function judgePairs(
  rules: readonly Rule[],
  measured: readonly MeasuredRow[],
  input: GateInput,
): GateRow[] {
  const cases = pairedCases(rules, measured);
  for (const c of cases) refuseFineTolerance(c);
  const corrected = holm(cases.map((c) => c.estimate?.p_slower ?? 1));
  return cases.map((c, i) => pairedRow(c, corrected[i], input));
}

function pairedCases(rules: readonly Rule[], measured: readonly MeasuredRow[]): PairedCase[] {
  const found = rules.filter((r) => r.mode === "paired")
    .flatMap((rule) => candidates(rule, measured).map((row) => ({ rule, row })));
  return found.map(({ rule, row }): PairedCase => {
    const { comparison, row: compared } = row.paired!;
    const tolerance = rule.tolerance ?? comparison.settings.tolerance;
    const options = judgeOptions({ ...comparison.settings, tolerance }, found.length);
    const judged = row.problem === null && compared.unpaired === null;
    return {
      rule,
      row,
      options,
      estimate: judged ? estimate(logRatios(compared.pairs), options) : null,
    };
  });
}

/** A tolerance that the machine's own noise exceeds would fail or block at random. */
function refuseFineTolerance({ row, options }: PairedCase): void {
  if (row.problem) return;
  const noise = row.paired!.comparison.noise?.rows.find((r) => r.id === row.id);
  if (!noise || options.tolerance >= TOLERANCE_HALF_WIDTHS * noise.half_width) return;
  const least = percent(Math.ceil(2000 * noise.half_width) / 1000);
  throw new UserError(
    `A tolerance of ${
      percent(options.tolerance)
    } for ${row.id} is finer than this machine can tell: ` +
      `its noise has a half-width of ${percent(noise.half_width)}. Give at least ${least}.`,
  );
}

function pairedRow(c: PairedCase, pSlower: number, input: GateInput): GateRow {
  const { comparison, row } = c.row.paired!;
  const finish = (f: Finding, e = c.estimate): GateRow => ({
    ...f,
    ...identity(c.rule, c.row),
    estimate: e,
  });
  if (c.row.problem) {
    return finish({ outcome: c.row.problem.outcome, text: c.row.problem.why }, null);
  }
  if (comparison.settings.aa) {
    return finish({ outcome: "error", text: "an A/A comparison proves nothing about a change" });
  }
  if (row.unpaired) return finish(unpairedFinding(row, c.options), row.estimate);
  const { outcome, why } = judge(c.estimate, c.options, pSlower);
  const text = c.estimate ? estimateText(c.estimate, c.options) : why;
  if (outcome === "inconclusive") return finish({ outcome, text: `${text}: ${why}` });
  const accepted = outcome === "fail" ? acceptedLoss(c, input) : null;
  if (!accepted) return finish({ outcome, text });
  return finish({ outcome: "pass", text: `${text}: accepted, ${accepted.reason}` });
}

function unpairedFinding(row: CompareRow, options: JudgeOptions): Finding {
  const outcome: GateOutcome = row.outcome === "pass" || row.outcome === "fail"
    ? row.outcome
    : "inconclusive";
  const text = row.estimate ? estimateText(row.estimate, options, "samples") : "";
  return { outcome, text: `${text}: ${row.why}` };
}

/** The entry that accepted this very program with a loss as large as this one. */
function acceptedLoss(
  { row, options, estimate: e }: PairedCase,
  input: GateInput,
): BaselineEntry | null {
  const { program } = row.paired!.comparison.head;
  const entry = baselineOf(row.fingerprint, input)?.entries.at(-1);
  if (!entry || program === null || entry.program !== program || isExpired(entry, input.now)) {
    return null;
  }
  const known = entry.rows.find((r) => r.id === row.id && r.ratio !== null);
  return known && e && e.ratio >= known.ratio! * (1 - options.tolerance) ? entry : null;
}
