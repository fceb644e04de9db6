/** The suites of a comparison: which workloads, and how long a sample of each must be. Pure data. */
import { UserError } from "../engine/errors.ts";
import type { Workload } from "./subject.ts";

const MS = 1e6;
/** A sample of a serious suite: long enough that timers and wake-ups are noise below 0.1 %. */
const FULL = { sampleNsMin: 250 * MS, stepsMin: 32 };
/** For a quick look: wake-ups may weigh half a percent, more pairs make up for it. */
const SHORT = { sampleNsMin: 100 * MS, stepsMin: 32 };

function decode(tokens: number, depth: number, length: typeof FULL): Workload {
  return { id: `decode${tokens}@d${depth}`, kind: "decode", tokens, depth, ...length };
}

function prefill(tokens: number, depth: number, length: typeof FULL): Workload {
  return { id: `prefill${tokens}@d${depth}`, kind: "prefill", tokens, depth, ...length };
}

export const SUITES: Readonly<Record<string, readonly Workload[]>> = {
  smoke: [decode(32, 0, SHORT)],
  decode: [decode(128, 0, FULL), decode(128, 2048, FULL)],
  prefill: [prefill(512, 0, FULL), prefill(512, 2048, FULL)],
};

export const SUITE_NAMES = Object.keys(SUITES);

/** The workloads of a suite. Throws UserError for an unknown name. */
export function suite(name: string): readonly Workload[] {
  if (Object.hasOwn(SUITES, name)) return SUITES[name];
  throw new UserError(`Unknown suite ${name}: there is ${SUITE_NAMES.join(", ")}.`);
}

/** Tokens of context that a suite needs. */
export function contextOf(workloads: readonly Workload[]): number {
  return Math.max(...workloads.map((w) => w.depth + w.tokens)) + 2;
}
