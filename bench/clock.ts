/** The clock of this process, and its grain. */
import process from "node:process";
import type { Clock } from "./port.ts";

export const monotonicClock: Clock = { now: () => process.hrtime.bigint() };

/** The smallest step that a clock was seen to make. */
export function clockGrainNs(clock: Clock): number {
  let least = Infinity;
  for (let i = 0; i < 20; i++) {
    const from = clock.now();
    let to = clock.now();
    for (let tries = 0; to === from && tries < 1e6; tries++) to = clock.now();
    if (to > from) least = Math.min(least, Number(to - from));
  }
  return least;
}
