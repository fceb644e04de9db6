/** A gate's result for people and for CI systems: lines, Markdown, annotations, JUnit. Formats only. */
import { cumulativeText } from "./gate.ts";
import type { GateResult, GateRow } from "./gate_result.ts";
import type { Verdict } from "./verdict_line.ts";

const WORDS: Readonly<Record<GateRow["outcome"], string>> = {
  pass: "PASS",
  fail: "FAIL",
  inconclusive: "INCONCLUSIVE",
  changed: "CHANGED",
  error: "ERROR",
  missing: "MISSING",
  environment: "ENVIRONMENT",
};

/** `FAIL decode128@d0: 0.957x (...)`; what does not block says so. */
export function gateLine(row: GateRow): string {
  const blocks = row.required || row.outcome === "pass" ? "" : " (does not block)";
  return `${WORDS[row.outcome]} ${row.id}: ${row.text}${blocks}`;
}

/** Worst row first, then cumulative changes and notes. */
export function gateLines(result: GateResult): string[] {
  return [
    ...result.rows.map(gateLine),
    ...result.cumulative.map((c) => `  ${c.id}: ${cumulativeText(c)}`),
    ...result.notes.map((n) => `  note: ${n}`),
  ];
}

const TITLES: Readonly<Record<Verdict, string>> = {
  pass: "No regression",
  regression: "Regression",
  errors: "Rows failed or are missing",
  output_changed: "Output changed",
  inconclusive: "Inconclusive",
  environment: "Environment invalid",
  interrupted: "Interrupted",
};

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ").replaceAll("<", "&lt;");
}

/** A section for the summary page of a GitHub job. */
export function githubSummary(result: GateResult): string {
  const rows = result.rows.map((r) => {
    const blocks = r.required ? "yes" : "no";
    return `| ${WORDS[r.outcome]} | ${cell(r.id)} | ${cell(r.text)} | ${r.mode} | ${blocks} |`;
  });
  const since = result.cumulative.map((c) => `- ${cell(c.id)}: ${cumulativeText(c)}`);
  return [
    `## lapwing gate: ${TITLES[result.verdict]}`,
    "",
    "| | row | found | rule | blocks |",
    "|---|---|---|---|---|",
    ...rows,
    ...(since.length > 0 ? ["", "Since the oldest accepted baseline:", "", ...since] : []),
    ...(result.notes.length > 0 ? ["", ...result.notes.map((n) => `- ${cell(n)}`)] : []),
    "",
  ].join("\n");
}

function commandText(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function commandProperty(text: string): string {
  return commandText(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}

/** Workflow commands that GitHub shows beside the run. */
export function annotations(result: GateResult): string[] {
  const rows = result.rows.filter((r) => r.outcome !== "pass").map((r) => {
    const severe = r.required && r.outcome !== "inconclusive";
    const title = commandProperty(`lapwing ${r.id}`);
    return `::${severe ? "error" : "warning"} title=${title}::${commandText(gateLine(r))}`;
  });
  return [...rows, ...result.notes.map((n) => `::notice title=lapwing::${commandText(n)}`)];
}

function xml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;").replace(/[^\t\n\r\x20-\uD7FF\uE000-\uFFFD]/g, "?");
}

/** One test case a row: failures are proven or changed, errors could not be judged. */
export function junit(result: GateResult): string {
  const bad = (r: GateRow) => r.required && ["fail", "changed"].includes(r.outcome);
  const broken = (r: GateRow) =>
    r.required && ["error", "missing", "environment"].includes(r.outcome);
  const skipped = (r: GateRow) => r.outcome !== "pass" && !bad(r) && !broken(r);
  const count = (of: (r: GateRow) => boolean) => result.rows.filter(of).length;
  const cases = result.rows.map((r) => {
    const head = `<testcase classname="lapwing.${r.mode}" name="${xml(`${r.id} ${r.metric}`)}"`;
    const message = `message="${xml(gateLine(r))}"`;
    const tag = bad(r) ? "failure" : broken(r) ? "error" : skipped(r) ? "skipped" : null;
    return tag === null ? `  ${head}/>` : `  ${head}><${tag} ${message}/></testcase>`;
  });
  const attributes = `name="lapwing gate" tests="${result.rows.length}" failures="${count(bad)}" ` +
    `errors="${count(broken)}" skipped="${count(skipped)}"`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuite ${attributes}>\n${
    cases.join("\n")
  }\n</testsuite>\n`;
}
