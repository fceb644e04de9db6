/** A gate from file names to a result, and accepting what was measured as the new baseline. */
import { UserError } from "../engine/errors.ts";
import { accept, baselinePath, readBaseline, writeBaseline } from "./baseline.ts";
import { describeMachine } from "./fingerprint.ts";
import { acceptedValue, runGate } from "./gate.ts";
import {
  type MeasuredRow,
  readBaselines,
  readDocuments,
  rowsOfComparison,
  rowsOfReport,
} from "./gate_documents.ts";
import type { GateInput, GateResult } from "./gate_result.ts";
import { readPolicy } from "./policy.ts";

export interface GateRequest {
  readonly reports: readonly string[];
  readonly policy: string;
  readonly baseline?: string;
  readonly now: Date;
}

export interface GateRun {
  readonly input: GateInput;
  readonly result: GateResult;
}

/** Reads everything and judges it. Throws UserError. */
export async function gate(request: GateRequest): Promise<GateRun> {
  const policy = await readPolicy(request.policy);
  const documents = await readDocuments(request.reports);
  const { baselines, history } = request.baseline === undefined
    ? { baselines: [], history: [] }
    : await readBaselines(request.baseline);
  const input = { ...documents, policy, baselines, history, now: request.now };
  return { input, result: runGate(input) };
}

/** Writes what was measured as the baseline; returns its file. Throws UserError for what cannot be one. */
export async function acceptRun(
  { input, result }: GateRun,
  place: string,
  reason: string,
): Promise<string> {
  const measured = [
    ...input.comparisons.flatMap(rowsOfComparison),
    ...input.reports.flatMap(rowsOfReport),
  ];
  const broken = result.rows.find((r) =>
    ["error", "missing", "environment"].includes(r.outcome) && r.required
  );
  if (broken) throw new UserError(`Cannot accept ${broken.id}: ${broken.text}`);
  const [first] = measured;
  if (!first || measured.some((r) => r.fingerprint !== first.fingerprint)) {
    throw new UserError(
      "A baseline is of one machine and one model: give reports of the same one.",
    );
  }
  const path = baselinePath(place, first.fingerprint);
  const old = await readBaseline(path);
  if (old && old.fingerprint !== first.fingerprint) {
    throw new UserError(`${path} is the baseline of another machine or model (${old.machine}).`);
  }
  const head = input.comparisons[0]?.head;
  const accepted = accept(old, {
    reason,
    now: input.now,
    days: input.policy.baseline_days,
    fingerprint: first.fingerprint,
    machine: describeMachine(first.env),
    commit: head?.commit ?? input.reports[0]?.tool.commit ?? null,
    program: head?.program ?? null,
    rows: acceptedRows(measured),
  });
  await writeBaseline(path, accepted);
  return path;
}

/** One entry a row: compared rows before reported ones, since they carry a ratio. */
function acceptedRows(measured: readonly MeasuredRow[]) {
  const seen = new Set<string>();
  return measured.flatMap((row) => {
    const { value, ratio } = acceptedValue(row);
    if (value === null || seen.has(row.id)) return [];
    seen.add(row.id);
    const ci: [number, number] | null = row.interval ? [...row.interval] : null;
    return [{ id: row.id, metric: "median_tps", value, ci, ratio }];
  });
}
