/**
 * Accepted measurements: files by machine, each entry with a reason, a day on which it expires, and the
 * change since the oldest one. Owns reading and writing them; judges nothing.
 */
import { join } from "node:path";
import * as v from "valibot";
import { shownName } from "../engine/errors.ts";
import { parseJson } from "../engine/json.ts";
import { readText } from "./json_file.ts";
import { writeWhole } from "./report_file.ts";

export const BASELINE_SCHEMA = "lapwing-baseline/1";

const positive = v.pipe(v.number(), v.finite(), v.minValue(0));
const text = v.string();
const time = v.pipe(text, v.isoTimestamp());

const entrySchema = v.object({
  accepted_at: time,
  expires_at: time,
  reason: text,
  commit: v.nullable(text),
  /** Identity of the program that was accepted; null where only its library is known. */
  program: v.nullable(text),
  rows: v.array(v.object({
    id: text,
    metric: text,
    value: positive,
    ci: v.nullable(v.tuple([positive, positive])),
    /** Rate over that of the program it was compared with; null where it was measured alone. */
    ratio: v.nullable(positive),
    /** Rate over that of the oldest entry. */
    cumulative: positive,
  })),
});

const baselineSchema = v.object({
  schema: v.literal(BASELINE_SCHEMA),
  fingerprint: text,
  machine: text,
  /** Oldest first. */
  entries: v.array(entrySchema),
});

export type Baseline = v.InferOutput<typeof baselineSchema>;
export type BaselineEntry = v.InferOutput<typeof entrySchema>;
export type BaselineRow = BaselineEntry["rows"][number];

const DAY_MS = 86_400_000;

/** Checks one document. Throws UserError. */
export function parseBaseline(text: string, name: string): Baseline {
  return parseJson(`Baseline ${shownName(name)}`, text, baselineSchema);
}

/** Where the baseline of a machine lies: the file itself, or a file of its own in a folder. */
export function baselinePath(place: string, fingerprint: string): string {
  return place.endsWith(".json") ? place : join(place, `${fingerprint}.json`);
}

export function isExpired(entry: BaselineEntry, now: Date): boolean {
  return Date.parse(entry.expires_at) <= now.getTime();
}

export interface Acceptance {
  readonly reason: string;
  readonly now: Date;
  readonly days: number;
  readonly fingerprint: string;
  readonly machine: string;
  readonly commit: string | null;
  readonly program: string | null;
  readonly rows: readonly Omit<BaselineRow, "cumulative">[];
}

/** Adds an entry; changes are chained from entry to entry, so that many small losses add up. */
export function accept(old: Baseline | null, a: Acceptance): Baseline {
  const entries = old?.entries ?? [];
  const last = entries.at(-1);
  const rows = a.rows.map((row): BaselineRow => ({
    ...row,
    cumulative: cumulativeChange(entries, row) ?? 1,
  }));
  // Rows that this measurement lacks keep their place in the chain.
  const kept = (last?.rows ?? []).filter((r) =>
    !rows.some((n) => n.id === r.id && n.metric === r.metric)
  );
  const entry: BaselineEntry = {
    accepted_at: a.now.toISOString(),
    expires_at: new Date(a.now.getTime() + a.days * DAY_MS).toISOString(),
    reason: a.reason,
    commit: a.commit,
    program: a.program,
    rows: [...rows, ...kept.map((r) => ({ ...r, ratio: 1 }))],
  };
  return {
    schema: BASELINE_SCHEMA,
    fingerprint: a.fingerprint,
    machine: a.machine,
    entries: [...entries, entry],
  };
}

/** A row's change since the oldest entry; null where none has the row. */
export function cumulativeChange(
  entries: readonly BaselineEntry[],
  row: Pick<BaselineRow, "id" | "metric" | "value" | "ratio">,
): number | null {
  const known = entries.flatMap((e) =>
    e.rows.filter((r) => r.id === row.id && r.metric === row.metric)
  );
  if (known.length === 0) return null;
  if (row.ratio !== null) return known.at(-1)!.cumulative * row.ratio;
  return known[0].value > 0 ? row.value / known[0].value * known[0].cumulative : null;
}

export async function writeBaseline(path: string, baseline: Baseline): Promise<void> {
  const folder = path.slice(0, path.lastIndexOf("/"));
  if (folder !== "") await Deno.mkdir(folder, { recursive: true });
  await writeWhole(path, JSON.stringify(baseline, null, 2) + "\n");
}

/** The baseline at a path; null where there is no file yet. */
export async function readBaseline(path: string): Promise<Baseline | null> {
  const exists = await Deno.stat(path).then(() => true, () => false);
  return exists ? parseBaseline(await readText(path), path) : null;
}
