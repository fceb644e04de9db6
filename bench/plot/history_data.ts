/**
 * Rates of the same row from run to run, out of reports and of accepted baselines. Finds which values belong
 * together; draws nothing.
 */
import { basename } from "node:path";
import type { Baseline } from "../baseline.ts";
import { reportFingerprint } from "../fingerprint.ts";
import { pointTitle } from "./caption.ts";
import { rateText } from "./numbers.ts";
import { factsOf, labelsOf, type Setting } from "./series.ts";
import { type Omission, select, type Source, type SourceRow } from "./source.ts";

export interface NamedBaseline {
  readonly name: string;
  readonly baseline: Baseline;
}

/** A report, or an entry of a baseline. */
export interface HistoryRun {
  readonly name: string;
  readonly at: string;
  readonly commit: string | null;
  readonly dirty: boolean;
}

export interface HistoryValue {
  readonly rate: number;
  readonly interval: readonly [number, number] | null;
  readonly limit: number | null;
  readonly verdict: string;
  readonly title: string;
  /** Null for a value of a baseline. */
  readonly entry: SourceRow | null;
}

/** One row of one setting in every run; null where the run has nothing to draw for it. */
export interface Track {
  readonly row: string;
  readonly label: string;
  readonly values: readonly (HistoryValue | null)[];
}

export interface History {
  /** By date. */
  readonly runs: readonly HistoryRun[];
  readonly tracks: readonly Track[];
  readonly failed: readonly Omission[];
}

interface Placed {
  readonly run: HistoryRun;
  readonly value: HistoryValue;
}

interface Thread {
  readonly row: string;
  readonly fingerprint: string;
  /** What a label may say. */
  readonly facts: ReadonlyMap<string, string>;
  readonly placed: Placed[];
}

const SETTINGS: readonly Setting[] = [
  "gen",
  "calls",
  "depth",
  "prompt",
  "chunk",
  "threads",
  "tokens",
];
/** Settings that a row's name does not say. */
export const HISTORY_SETTINGS: readonly Setting[] = ["chunk", "threads", "tokens"];
const RUN_FACTS = ["commit", "file", "started"];
const ROW_FACTS: readonly string[] = ["gen", "calls", "depth", "prompt"];
/** The only metric of a baseline that a report's pictures show. */
const METRIC = "median_tps";

/** Rows that two runs or more have, and the runs that have something to say about them. */
export function historyOf(
  sources: readonly Source[],
  baselines: readonly NamedBaseline[],
): History {
  const { drawn, omitted } = select(sources, () => true);
  const threads = threadsOf(drawn);
  for (const named of baselines) addBaseline(threads, named);
  const kept = threads.filter((t) => new Set(t.placed.map((p) => p.run.name)).size > 1);
  const failed = omitted.filter((o) => kept.some((t) => t.row === o.row));
  const broken = sources.filter((s) => failed.some((o) => o.source === s.name)).map(runOf);
  const runs = [...kept.flatMap((t) => t.placed.map((p) => p.run)), ...broken];
  const distinct = [...new Map(runs.map((run) => [run.name, run])).values()]
    .sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const labels = labelsOf(kept.map((t) => t.facts));
  const tracks = kept.map((t, i) => ({
    row: t.row,
    label: labels[i],
    values: distinct.map((run) => t.placed.find((p) => p.run.name === run.name)?.value ?? null),
  }));
  return { runs: distinct, tracks, failed };
}

function threadsOf(drawn: readonly SourceRow[]): Thread[] {
  const groups = Map.groupBy(drawn, (entry) => {
    const facts = [...factsOf(entry, SETTINGS)].filter(([name]) => !RUN_FACTS.includes(name));
    return JSON.stringify([entry.row.id, ...facts]);
  });
  return [...groups.values()].map((entries) => ({
    row: entries[0].row.id,
    fingerprint: reportFingerprint(entries[0].source.report),
    facts: new Map(
      [...factsOf(entries[0], SETTINGS)].filter(([name]) =>
        !RUN_FACTS.includes(name) && !ROW_FACTS.includes(name)
      ),
    ),
    placed: entries.map((entry) => ({ run: runOf(entry.source), value: valueOf(entry) })),
  }));
}

function runOf({ name, report: { started_at, tool } }: Source): HistoryRun {
  return { name, at: started_at, commit: tool.commit, dirty: tool.dirty === true };
}

function valueOf(entry: SourceRow): HistoryValue {
  const { row, source } = entry, rate = row.stats!.median_tps!;
  return {
    rate,
    interval: row.stats!.ci95,
    limit: row.limit?.tps_limit ?? null,
    verdict: row.validity.verdict,
    title: pointTitle(entry, `${rateText(rate)} tokens/s, ${source.name}`),
    entry,
  };
}

/** A baseline goes on with the one report series of its machine that has the row, else by itself. */
function addBaseline(threads: Thread[], { name, baseline }: NamedBaseline): void {
  const { fingerprint, machine } = baseline;
  baseline.entries.forEach((entry, i) => {
    const run: HistoryRun = {
      name: `${basename(name)}, entry ${i + 1}`,
      at: entry.accepted_at,
      commit: entry.commit,
      dirty: false,
    };
    for (const { id, metric, value, ci } of entry.rows) {
      if (metric !== METRIC || value <= 0) continue;
      const same = threads.filter((t) => t.row === id && t.fingerprint === fingerprint);
      const thread = same.length === 1 ? same[0] : alone(threads, id, fingerprint, machine);
      thread.placed.push({
        run,
        value: {
          rate: value,
          interval: ci,
          limit: null,
          verdict: "accepted",
          title: `${id}\n${rateText(value)} tokens/s\naccepted: ${entry.reason}`,
          entry: null,
        },
      });
    }
  });
}

function alone(threads: Thread[], row: string, fingerprint: string, machine: string): Thread {
  const label = `accepted, ${machine}`;
  const found = threads.find((t) => t.row === row && t.facts.get("model") === label);
  if (found) return found;
  // Another fingerprint: reports do not go on here.
  const thread: Thread = {
    row,
    fingerprint: `${fingerprint} accepted`,
    facts: new Map([["model", label], ["backend", fingerprint]]),
    placed: [],
  };
  threads.push(thread);
  return thread;
}
