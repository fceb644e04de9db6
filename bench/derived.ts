/** A document of rows, with what several of them come to together. Pure: a reader computes the same from the rows. */
import { callCosts } from "./call_costs.ts";
import type { Report, ReportHead, Row } from "./report.ts";
import { verifyCurves } from "./verify_curves.ts";

export function withDerived(head: ReportHead, rows: readonly Row[]): Report {
  const curves = verifyCurves(rows, head.spec), costs = callCosts(rows);
  return {
    ...head,
    rows: [...rows],
    ...curves.length > 0 && { verify_curves: curves },
    ...costs.length > 0 && { call_costs: costs },
  };
}
