/** A profile as tables for people. */
import { groupsOf, layerName } from "../bench/profile_figures.ts";
import type { Profile, ProfileGroup } from "../bench/profile_report.ts";
import { counted } from "../engine/wording.ts";
import { headOf } from "./bench_table.ts";
import { bytes, type Column, duration, type Paint, table } from "./print.ts";

export const GROUPINGS = ["op", "layer", "record"] as const;
export type Grouping = (typeof GROUPINGS)[number];

const PART_NAMES: Readonly<Record<string, string>> = {
  gdn: "gdn layers",
  attention: "attention layers",
  head: "draft head",
  ends: "the ends",
};

export function profileTable(profile: Profile, by: Grouping, paint: Paint): string {
  const tables = {
    op: () => [namedTable("op", profile.by_op, profile, paint), "\n", partTable(profile, paint)],
    layer: () => [
      namedTable("layer", profile.by_layer, profile, paint),
      "\n",
      partTable(profile, paint),
    ],
    record: () => [recordTable(profile, paint)],
  };
  const ends = joinedLine(profile) + gapLine(profile);
  return headOf(profile) + playLine(profile) + tables[by]().join("") + ends;
}

/** `decode: 1 row behind 4096 tokens, KV f16: 412 records, medians of 20 plays` */
function playLine({ spec, records }: Profile): string {
  const behind = `${counted(spec.rows, "row")} behind ${counted(spec.n_depth, "token")}`;
  const medians = spec.repetitions === 1 ? "one play" : `medians of ${spec.repetitions} plays`;
  return `${spec.phase}: ${behind}, KV ${spec.kv}: ${
    counted(records.length, "record")
  }, ${medians}\n\n`;
}

/** Lines of groups behind what names them; operations count where many rows share a weight. */
function groupTable(
  names: readonly Column[],
  groups: readonly (ProfileGroup & { readonly cells: readonly string[] })[],
  { spec }: Profile,
  paint: Paint,
): string {
  const many = spec.phase === "prefill";
  const right = (title: string) => ({ title, right: true });
  const figures = ["us", "share", "bytes", "GB/s", "of read", ...many ? ["TFLOP/s"] : []];
  return table(
    [...names, ...figures.map(right)],
    groups.map((g) => [...g.cells, ...figuresOf(g), ...many ? [fixed(g.tflop_s, 3)] : []]),
    paint,
  );
}

function fixed(x: number | null, digits: number, unit = ""): string {
  return x === null ? "" : x.toFixed(digits) + unit;
}

function figuresOf(g: ProfileGroup): string[] {
  return [
    fixed(g.ns / 1e3, 1),
    fixed(g.share_pct, 1, " %"),
    g.bytes > 0 ? bytes(g.bytes) : "",
    fixed(g.gb_s, 2),
    fixed(g.pct_of_measured_bw, 1, " %"),
  ];
}

const RECORDS = { title: "records", right: true };

function namedTable(
  title: string,
  groups: readonly ProfileGroup[],
  profile: Profile,
  paint: Paint,
) {
  const named = groups.map((g) => ({ ...g, cells: [g.name, String(g.records)] }));
  return groupTable([{ title }, RECORDS], named, profile, paint);
}

function partTable(profile: Profile, paint: Paint): string {
  const named = profile.by_part.map((g) => {
    const layers = new Set(profile.records.filter((r) => r.part === g.name).map((r) => r.layer));
    const many = layers.has(null) ? "" : ` (${layers.size})`;
    return { ...g, name: PART_NAMES[g.name] + many };
  });
  return namedTable("part", named, profile, paint);
}

/** Each record a line, in the order of the play; `|` marks one that waits for those before it. */
function recordTable(profile: Profile, paint: Paint): string {
  const { records, sum_ns, measured_gb_s } = profile;
  const lines = records.map((r, i) => {
    const [group] = groupsOf([r], () => r.kernel, sum_ns, measured_gb_s);
    return { ...group, cells: [String(i), r.waits ? "|" : "", r.kernel, layerName(r)] };
  });
  const names = [{ title: "", right: true }, { title: "" }, { title: "kernel" }, {
    title: "layer",
  }];
  return groupTable(names, lines, profile, paint);
}

/** What of a CUDA graph has no launch of its own. */
function joinedLine({ records, spec }: Profile): string {
  const joined = records.filter((r) => r.ns === 0);
  if (spec.device !== "cuda" || joined.length === 0) return "";
  const ops = [...new Set(joined.map((r) => r.op))].join(", ");
  return `\n${counted(joined.length, "record")} without a time, ${ops}: ` +
    "done by the record before in the same launch, or shorter than the clock tells\n";
}

/** Always said: what the records add up to, what a step takes, and what lies between. */
function gapLine({ sum_ns, step, gap_ns, gap_pct, spec, measured_gb_s }: Profile): string {
  const us = (ns: number) => `${(ns / 1e3).toFixed(1)} us`;
  const timed = `${counted(step.calls_ns.length, "call")} of ${
    counted(step.plays_per_call, "play")
  }`;
  const apart = gap_ns < 0 ? ": records timed apart take longer than together" : "";
  return `\nsum of the records ${duration(sum_ns)}, step ${
    duration(step.ns)
  } unprofiled (${timed}), ` +
    `gap ${us(gap_ns)} (${gap_pct.toFixed(1)} %)${apart}\n` +
    `of read: the share of ${
      measured_gb_s.toFixed(1)
    } GB/s, which ${spec.device} reads of as many bytes as a play\n`;
}
