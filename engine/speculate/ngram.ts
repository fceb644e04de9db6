/**
 * Prompt lookup: what followed the last few tokens when they stood here before is proposed again. An index
 * from every 3 and every 2 tokens to their latest place grows with the timeline, a few steps a token; a
 * single token says too little to be looked up.
 */
import { type Draft, type Drafter, NO_DRAFT } from "./drafter.ts";

/** Ids and numbers of pairs are below this: one of each makes one exact integer. */
const RADIX = 2 ** 26;

class NgramDrafter implements Drafter {
  readonly name = "ngram";
  readonly onDevice = false;
  /** Two tokens to the number of their pair. */
  readonly #pairs = new Map<number, number>();
  /** What stands behind the latest place of each pair, as an index into the timeline. */
  readonly #behindPair: number[] = [];
  /** The same of three tokens: the number of the first two, and the third. */
  readonly #behindTriple = new Map<number, number>();
  #indexed = 0;
  /** The numbers of the two pairs that end before the next token to be indexed; -1 before there are. */
  #last = -1;
  #previous = -1;

  begin(): void {
    this.#pairs.clear();
    this.#behindPair.length = 0;
    this.#behindTriple.clear();
    this.#indexed = 0;
    this.#last = this.#previous = -1;
  }

  observe(): void {}

  propose(tokens: ArrayLike<number>, room: number): Draft {
    const end = tokens.length;
    this.#index(tokens);
    if (end < 3 || room < 1) return NO_DRAFT;
    const from = this.#latest(tokens[end - 1]);
    if (from === undefined) return NO_DRAFT;
    const ids: number[] = [];
    // What is copied beyond the end goes on with the copy: text that repeats goes on repeating.
    for (let at = from; ids.length < room; at++) {
      ids.push(at < end ? tokens[at] : ids[at - end]);
    }
    return { ids };
  }

  /** Enters the tokens behind the last call's; what they follow gets its place, the end itself has none. */
  #index(tokens: ArrayLike<number>): void {
    for (let at = this.#indexed; at < tokens.length; at++) {
      if (this.#last >= 0) this.#behindPair[this.#last] = at;
      if (this.#previous >= 0) this.#behindTriple.set(this.#triple(tokens[at - 1]), at);
      this.#previous = this.#last;
      if (at > 0) this.#last = this.#pair(tokens[at - 1], tokens[at]);
    }
    this.#indexed = tokens.length;
  }

  /** Behind the latest earlier place of the last three tokens, else of the last two. */
  #latest(last: number): number | undefined {
    const behind = this.#previous < 0 ? undefined : this.#behindTriple.get(this.#triple(last));
    if (behind !== undefined) return behind;
    const pair = this.#behindPair[this.#last];
    return pair < 0 ? undefined : pair;
  }

  #triple(third: number): number {
    return this.#previous * RADIX + third;
  }

  #pair(first: number, second: number): number {
    const key = first * RADIX + second;
    let number = this.#pairs.get(key);
    if (number === undefined) {
      number = this.#behindPair.length;
      this.#pairs.set(key, number);
      this.#behindPair.push(-1);
    }
    return number;
  }
}

/** A drafter without a model, for texts that repeat themselves or their prompt. */
export function ngramDrafter(): Drafter {
  return new NgramDrafter();
}
