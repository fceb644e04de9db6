/** What rounds cost and gain, as tables for people. Figures come from the report. */
import { type Curve, isComparable, type Report, type Row } from "../bench/report.ts";
import { ROUND_ROWS_MAX } from "../bench/grid.ts";
import { counted } from "../engine/wording.ts";
import { duration, type Paint, table } from "./print.ts";

const COLUMNS = [
  { title: "T", right: true },
  { title: "V(T)", right: true },
  { title: "V(T)/S", right: true },
  { title: "per row", right: true },
  { title: "marginal", right: true },
  { title: "commit 0 / half / all", right: true },
  { title: "of S", right: true },
  { title: "host", right: true },
  { title: "draft", right: true },
  { title: "experts", right: true },
  { title: "pays from", right: true },
  { title: "route" },
] as const;

const UNKNOWN_HOST =
  "host -: too little to be seen, the records of such a round take as long apart as all of it\n";

/** Nothing where the report has no sweep. */
export function verifyTables(report: Report, paint: Paint): string {
  const curves = report.verify_curves ?? [];
  const runs = report.rows.filter((row) => row.spec?.run && isComparable(row));
  return [
    ...curves.map((curve) => curveTable(curve, paint)),
    ...runs.length > 0 ? [runsTable(runs, paint)] : [],
  ].join("");
}

function curveTable(curve: Curve, paint: Paint): string {
  const withExperts = curve.points.some((p) => p.distinct_experts !== null);
  const withHead = curve.points.some((p) => p.draft_ns !== null);
  const shown = COLUMNS.map((c) =>
    (c.title !== "experts" || withExperts) && (c.title !== "draft" || withHead)
  );
  const rows = curve.points.map((p, i) => {
    const before = curve.points[i - 1];
    const same = before && before.route.join() === p.route.join();
    return [
      String(p.rows),
      duration(p.verify_ns),
      p.cost.toFixed(2),
      p.cost_per_row.toFixed(2),
      p.marginal_ns === null ? "" : signed(p.marginal_ns),
      p.commit_ns === null ? "" : p.commit_ns.map((ns) => duration(ns)).join(" / "),
      p.commit_ns === null ? "" : p.commit_ns.map((ns) => shareOf(ns, curve.step_ns)).join(" / "),
      p.host_ns !== null ? duration(p.host_ns) : p.commit_ns === null ? "" : "-",
      p.draft_ns === null ? "" : signed(p.draft_ns),
      p.distinct_experts?.toFixed(1) ?? "",
      paysFrom(p),
      same ? "\u2033" : p.route.join(" "),
    ];
  });
  const kept = (cells: readonly string[]) => cells.filter((_, i) => shown[i]);
  return `\n${curve.id}: a step S takes ${duration(curve.step_ns)}; ${crossoverText(curve)}\n` +
    table(COLUMNS.filter((_, i) => shown[i]), rows.map(kept), paint) +
    (curve.points.some((p) => p.commit_ns !== null && p.host_ns === null) ? UNKNOWN_HOST : "") +
    curve.best.map((b) => `${bestText(b)}\n`).join("");
}

function paysFrom({ rows, commit_ns, breakeven }: Curve["points"][number]): string {
  if (rows === 1 || commit_ns === null) return "";
  return breakeven === null ? "never" : `${(100 * breakeven).toFixed(0)} %`;
}

function shareOf(ns: number, whole: number): string {
  return `${(100 * ns / whole).toFixed(1)} %`;
}

function signed(ns: number): string {
  return ns < 0 ? `-${duration(-ns)}` : duration(ns);
}

function crossoverText({ crossover_rows: rows, points }: Curve): string {
  const several = points.map((p) => p.rows).filter((n) => n > 1);
  if (several.length === 0) return "no play of several rows was measured";
  if (rows === null) return "one by one is faster than every play of several rows";
  const fewest = rows === Math.min(...several) && rows > 2 ? ", the fewest measured" : "";
  return `one play beats one by one from ${rows} rows on${fewest}`;
}

function bestText(b: Curve["best"][number]): string {
  const survival = b.survival.slice(0, 5).map((s) => s.toFixed(2)).join(" ");
  // Nothing is known of the places behind, so more may be better still.
  const last = b.drafts === b.survival.length && b.drafts < ROUND_ROWS_MAX - 1
    ? ", the most measured"
    : "";
  const singles = b.singles > 0 ? ` and ${b.singles.toFixed(2)} single ones beside it` : "";
  const what = b.drafts === 0
    ? "do not draft"
    : `best with ${counted(b.drafts, "draft")}${b.source === "given" ? "" : last}: ` +
      `${b.tokens_per_round.toFixed(2)} tokens a round${singles}, ` +
      `${b.speedup.toFixed(2)} times serial`;
  return `acceptance ${b.source} (${survival}): ${what}`;
}

const RUN_COLUMNS = [
  { title: "run" },
  { title: "tok/s", right: true },
  { title: "serial", right: true },
  { title: "speed-up", right: true },
  { title: "foretold", right: true },
  { title: "rounds", right: true },
  { title: "single", right: true },
  { title: "a round", right: true },
  { title: "accepted at each place" },
  { title: "draft verify commit host" },
  { title: "repeats itself", right: true },
] as const;

function runsTable(rows: readonly Row[], paint: Paint): string {
  const cells = rows.map((row) => {
    const spec = row.spec!, run = spec.run!, { shares } = run;
    const times = (x: number | null) => x === null ? "" : `${x.toFixed(2)}x`;
    const percent = (x: number | null) => x === null ? "-" : `${(100 * x).toFixed(0)} %`;
    return [
      row.id,
      row.stats?.median_tps?.toFixed(1) ?? "",
      run.serial_tps?.toFixed(1) ?? "",
      gainText(run),
      times(run.foretold_speedup),
      String(spec.rounds),
      String(run.serial),
      spec.mean_len?.toFixed(2) ?? "",
      spec.per_position.map((s) => s.toFixed(2)).join(" "),
      [shares.draft, shares.verify, shares.commit, shares.host].map(percent).join(" "),
      `${percent(run.prompt_hit_rate)}, ${percent(run.output_hit_rate)}`,
    ];
  });
  return "\n" + table(RUN_COLUMNS, cells, paint) + runNotes(rows).map((n) => `${n}\n`).join("");
}

type Run = NonNullable<NonNullable<Row["spec"]>["run"]>;

/** `1.31x (1.27..1.36)` */
function gainText({ speedup, speedup_ci95: ci }: Run): string {
  if (speedup === null) return "";
  return `${speedup.toFixed(2)}x` + (ci ? ` (${ci.map((x) => x.toFixed(2)).join("..")})` : "");
}

/** A run in which no draft was right, and that seems to gain, tells the error of all the others. */
function unsoundText({ id, spec }: Row): string[] {
  const { accepted, run } = spec!;
  if (accepted > 0 || !run!.speedup_ci95 || run!.speedup_ci95[0] <= 1) return [];
  return [
    `${id} seems to gain ${gainText(run!)} without a right draft: believe no gain that small`,
  ];
}

/** What the columns of runs do not say by themselves. */
function runNotes(rows: readonly Row[]): string[] {
  const runs = rows.map(({ spec }) => spec!.run!);
  const foretold = runs.some((run) => run.foretold_speedup !== null);
  const blank = runs.some((run) => run.foretold_speedup === null);
  const control = runs.some((run) => run.temperature > 0);
  return [
    ...foretold
      ? ["foretold: from plays of forced outcome in turn with the runs, and what these accepted"]
      : [],
    ...blank
      ? ["no speed-up is foretold where a run is too short for every play that this needs"]
      : [],
    ...control ? ["control: random ids, then tokens drawn almost evenly: nothing to find"] : [],
    ...rows.flatMap(unsoundText),
  ];
}
