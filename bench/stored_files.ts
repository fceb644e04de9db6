/** Reads two stored reports and makes the document of their comparison. Judging them is in stored.ts. */
import { concludeRows } from "./compare.ts";
import {
  COMPARE_SCHEMA,
  type CompareSettings,
  type Comparison,
  type SubjectIdentity,
} from "./compare_report.ts";
import { reportFingerprint } from "./fingerprint.ts";
import type { Report } from "./report.ts";
import { readReport } from "./report_file.ts";
import { compareStored } from "./stored.ts";

interface StoredReport {
  readonly name: string;
  readonly path: string;
}

export async function compareReports(
  base: StoredReport,
  head: StoredReport,
  request: {
    readonly settings: CompareSettings;
    readonly tool: Comparison["tool"];
    readonly argv: readonly string[];
  },
): Promise<Comparison> {
  const a = await readReport(base.path), b = await readReport(head.path);
  const fingerprint = reportFingerprint(b);
  const rows = compareStored(a, b, request.settings);
  const { session, rows: concluded } = concludeRows(rows, request.settings, false);
  const mismatch = fingerprint === reportFingerprint(a)
    ? []
    : ["base and head were measured on different machines, models or settings"];
  return {
    schema: COMPARE_SCHEMA,
    run_id: crypto.randomUUID(),
    started_at: new Date().toISOString(),
    tool: request.tool,
    argv: [...request.argv],
    settings: request.settings,
    env: b.env,
    model: b.model,
    fingerprint,
    base: identity(base, a),
    head: identity(head, b),
    outputs: null,
    noise: null,
    warnings: ["stored reports were not measured together: drift may look like a change"],
    session: { ...session, valid: mismatch.length === 0, reasons: mismatch },
    rows: mismatch.length === 0 ? concluded : concluded.map((row) => ({
      ...row,
      outcome: "inconclusive" as const,
      why: `invalid session: ${mismatch[0]}`,
    })),
  };
}

function identity({ name }: StoredReport, { tool, env }: Report): SubjectIdentity {
  const { path, sha256 } = env.library;
  return {
    kind: "report",
    name,
    commit: tool.commit,
    library: sha256 === null ? null : { path, sha256 },
    program: null,
  };
}
