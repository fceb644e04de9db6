/** Which rows leave a report, and how they and their machine are called elsewhere. */
import { isComparable, type Report, type Row } from "../report.ts";

export interface Selection {
  readonly rows: readonly Row[];
  /** Rows that are left out because they failed, were skipped or did not pass their checks. */
  readonly leftOut: number;
}

export function exportable(report: Report): Selection {
  const rows = report.rows.filter(isComparable);
  return { rows, leftOut: report.rows.length - rows.length };
}

/** The model's name without a path. */
export function modelName({ model, spec }: Report): string {
  const name = model?.alias ?? spec.model.split(/[/\\]/).filter(Boolean).at(-1) ?? "model";
  return model?.synthetic ? `${name}-synthetic` : name;
}

/** What the rows ran on. */
export function deviceName({ env }: Report): string {
  return env.gpus[0]?.name ?? env.cpu;
}

/** A word of letters, digits and a few signs: for names that must hold no blanks. */
export function word(text: string): string {
  return text.replace(/[^\w.+=@-]+/g, "_");
}
