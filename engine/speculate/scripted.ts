/** A drafter for tests: drafts of given lengths, right up to a given place and wrong from there. */
import type { Draft, Drafter } from "./drafter.ts";

/** One round's draft: `length` tokens of which the first `right` are those that serial decode makes. */
export interface ScriptedDraft {
  readonly length: number;
  readonly right: number;
}

/**
 * Follows `truth`, the timeline that serial decode makes from token 0 on, through `script` again and
 * again. A wrong token is the right one plus one, modulo `vocab`.
 */
export function scriptedDrafter(
  truth: ArrayLike<number>,
  script: readonly ScriptedDraft[],
  vocab: number,
): Drafter {
  let round = 0;
  return {
    name: "scripted",
    onDevice: false,
    begin: () => {},
    observe: () => {},
    propose(tokens, room): Draft {
      const { length, right } = script[round++ % script.length];
      const ids = Array.from({ length: Math.min(length, room) }, (_, i) => {
        const id = truth[tokens.length + i] ?? 0;
        return i < right ? id : (id + 1) % vocab;
      });
      return { ids };
    },
  };
}
