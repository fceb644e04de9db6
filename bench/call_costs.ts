/**
 * What a native call costs the host beside its tokens: decodes of the same tokens in few long calls and in many
 * short ones differ by that alone. Pure: a reader computes the same from the rows.
 */
import { type CallCost, isComparable, type Row } from "./report.ts";

/** What rows share that are held against each other. */
function placeOf({ params: p }: Row): string {
  return JSON.stringify([p.n_gen, p.n_depth, p.kv_type, p.threads, p.prefill_rows]);
}

function callsOf(row: Row): number {
  return row.calls!.tokens.length;
}

/** One cost a place, in the order of the rows; none where all calls are equally long. */
export function callCosts(rows: readonly Row[]): CallCost[] {
  const timed = rows.filter((r) => r.kind === "decode" && isComparable(r) && r.calls && r.stats);
  return [...Map.groupBy(timed, placeOf).values()].flatMap((all) => {
    const ordered = all.toSorted((a, b) => callsOf(b) - callsOf(a));
    const most = ordered[0], fewest = ordered.at(-1)!, more = callsOf(most) - callsOf(fewest);
    return more > 0 ? [costOf(ordered, most, fewest, more)] : [];
  });
}

function costOf(all: readonly Row[], most: Row, fewest: Row, more: number): CallCost {
  const long = boundsNs(most), short = boundsNs(fewest);
  return {
    n_gen: most.params.n_gen,
    n_depth: most.params.n_depth,
    points: all.map((r) => ({
      row: r.id,
      call_tokens: r.params.call_tokens!,
      calls: callsOf(r),
      median_ns: r.stats!.median_ns,
    })),
    host_ns_per_call: (most.stats!.median_ns - fewest.stats!.median_ns) / more,
    ci95: long && short && [(long.lo - short.hi) / more, (long.hi - short.lo) / more],
  };
}

/** The interval of a sample's time: that of its rate, turned round. */
function boundsNs({ stats, tokens_per_sample: tokens }: Row) {
  const ci = stats!.ci95;
  return ci && { lo: tokens * 1e9 / ci[1], hi: tokens * 1e9 / ci[0] };
}
