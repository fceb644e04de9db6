/**
 * What a round is worth: tokens that rounds of a given number of drafts make on average, from how often the
 * draft at each place is accepted. Pure; for the policy and for reports.
 */

/**
 * Tokens that a round of `drafts` drafts makes: one, and every draft that it accepts. `survival[i]` is the
 * share of rounds that accept the drafts at places 0 to i; places behind the list are never accepted.
 */
export function expectedTokens(survival: readonly number[], drafts: number): number {
  return survival.slice(0, drafts).reduce((sum, s) => sum + s, 1);
}

/** Survival where every draft is accepted with one probability, whatever stands before it. */
export function evenSurvival(acceptance: number, places: number): number[] {
  return Array.from({ length: places }, (_, i) => acceptance ** (i + 1));
}

/** Survival from the acceptance at each place of the drafts whose forerunners were accepted. */
export function survivalOf(acceptance: readonly number[]): number[] {
  let all = 1;
  return acceptance.map((a) => all *= a);
}
