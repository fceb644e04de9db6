/** Whether a row's numbers deserve trust: reasons from a closed list, by rules fixed here. */
import { driftIsSure, type RawRow, sampleRates } from "./figures.ts";
import type { MachineReading } from "./port.ts";
import type { RowStats, Validity, ValidityReason } from "./report.ts";
import { median } from "./stats.ts";

/** What surrounded the samples of a row. */
export interface Circumstances {
  readonly before: MachineReading;
  readonly after: MachineReading;
  readonly wallNs: number;
  readonly clockGrainNs: number;
  readonly battery: boolean;
  readonly dirtyBuild: boolean;
  readonly cachedTokens: number;
}

const FIRST_SLOWER = 1.1;
const OUTLIER_SHARE = 0.1;
const DRIFT_PCT = 3;
/** A sample shorter than so many steps of the clock is rounded by more than 0.1 %. */
const GRAINS_MIN = 1000;
/** Share of the machine that others may use before a row is suspect. */
const FOREIGN_SHARE = 0.1;

/** These make a row's numbers wrong; the others make them doubtful. */
const INVALIDATING: ReadonlySet<ValidityReason> = new Set(["warm_prefix_cache", "clock_coarse"]);

export function validityOf(raw: RawRow, stats: RowStats | null, at: Circumstances): Validity {
  const reasons: ValidityReason[] = [];
  const note = (when: boolean, reason: ValidityReason) => {
    if (when) reasons.push(reason);
  };
  const rates = sampleRates(raw), times = raw.samples_ns;
  note(times.length >= 3 && times[0] > FIRST_SLOWER * median(times.slice(1)), "first_sample_slow");
  note(stats !== null && stats.outliers > OUTLIER_SHARE * times.length, "outliers");
  note(times.some((ns) => ns < GRAINS_MIN * at.clockGrainNs), "clock_coarse");
  note(driftIsSure(rates) && Math.abs(stats?.drift_pct ?? 0) > DRIFT_PCT, "thermal_drift");
  note(at.battery, "battery");
  note(at.dirtyBuild, "dirty_build");
  note(grew(at.before.swappedPages, at.after.swappedPages) > 0, "swap");
  const foreign = grew(at.before.foreignCpuNs, at.after.foreignCpuNs);
  note(foreign > FOREIGN_SHARE * at.wallNs * at.after.cpus, "contention");
  note(at.cachedTokens > 0, "warm_prefix_cache");
  const invalid = reasons.some((r) => INVALIDATING.has(r));
  return { verdict: invalid ? "invalid" : reasons.length > 0 ? "suspect" : "valid", reasons };
}

function grew(before: number | null, after: number | null): number {
  return before === null || after === null ? 0 : after - before;
}
