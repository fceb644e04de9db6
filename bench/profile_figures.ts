/** Every figure of a profile from its raw times. Pure: a reader computes the same from the records. */
import { PARTS } from "./record_places.ts";
import type { Profile, ProfiledRecord, ProfileGroup } from "./profile_report.ts";
import { median } from "./stats.ts";

/** What is known of a record before it is timed. */
export type RecordFacts = Omit<ProfiledRecord, "ns">;

export interface ProfileTimes {
  /** Nanoseconds of each record, a list a repetition. */
  readonly profiles: readonly (readonly number[])[];
  readonly playsPerCall: number;
  /** Times of calls of plain plays. */
  readonly callsNs: readonly number[];
}

type Figures = Pick<
  Profile,
  "records" | "by_op" | "by_layer" | "by_part" | "sum_ns" | "step" | "gap_ns" | "gap_pct"
>;

/** `gbPerS` is the bandwidth that groups are held against. */
export function profileFigures(
  facts: readonly RecordFacts[],
  { profiles, playsPerCall, callsNs }: ProfileTimes,
  gbPerS: number,
): Figures {
  const records = facts.map((f, i) => ({ ...f, ns: median(profiles.map((p) => p[i])) }));
  const sumNs = records.reduce((sum, r) => sum + r.ns, 0);
  const stepNs = median([...callsNs]) / playsPerCall, gapNs = stepNs - sumNs;
  const by = (name: (r: ProfiledRecord) => string) => groupsOf(records, name, sumNs, gbPerS);
  const place = (name: string) => PARTS.findIndex((part) => part === name);
  return {
    records,
    by_op: by((r) => r.op).sort((a, b) => b.ns - a.ns),
    by_layer: by(layerName),
    by_part: by((r) => r.part).sort((a, b) => place(a.name) - place(b.name)),
    sum_ns: sumNs,
    step: { ns: stepNs, plays_per_call: playsPerCall, calls_ns: [...callsNs] },
    gap_ns: gapNs,
    gap_pct: stepNs > 0 ? 100 * gapNs / stepNs : 0,
  };
}

/** `3 attention`, `ends`. */
export function layerName({ part, layer }: Pick<ProfiledRecord, "part" | "layer">): string {
  return layer === null ? part : `${layer} ${part}`;
}

/** Bytes of a record that cross the memory: everything but scratch, which a good player keeps near. */
export function recordBytes({ bytes }: Pick<ProfiledRecord, "bytes">): number {
  return bytes.weights + bytes.kv + bytes.state;
}

/** Groups in the order of their first records. */
export function groupsOf(
  records: readonly ProfiledRecord[],
  nameOf: (r: ProfiledRecord) => string,
  sumNs: number,
  gbPerS: number,
): ProfileGroup[] {
  return [...Map.groupBy(records, nameOf)].map(([name, all]) => {
    const ns = all.reduce((sum, r) => sum + r.ns, 0);
    const bytes = all.reduce((sum, r) => sum + recordBytes(r), 0);
    const flops = all.reduce((sum, r) => sum + r.flops, 0);
    const rate = bytes > 0 && ns > 0 ? bytes / ns : null;
    return {
      name,
      records: all.length,
      ns,
      share_pct: sumNs > 0 ? 100 * ns / sumNs : 0,
      bytes,
      flops,
      gb_s: rate,
      pct_of_measured_bw: rate === null ? null : 100 * rate / gbPerS,
      tflop_s: flops > 0 && ns > 0 ? flops / ns / 1e3 : null,
    };
  });
}
