/**
 * Finds stop strings in text that arrives in pieces, and holds back just what may still become one.
 * Knows text only; stop tokens are the generation loop's.
 */
import { UserError } from "./errors.ts";

interface State {
  readonly next: Map<string, State>;
  /** Longest proper suffix of this state's text that is also a state. */
  fail: State | null;
  /** Length of this state's text: what is held back when input ends here. */
  readonly depth: number;
  /** The longest stop string that ends here, if one does. */
  stop: string | null;
}

function newState(depth: number): State {
  return { next: new Map(), fail: null, depth, stop: null };
}

/** Aho-Corasick: one walk over the text finds all stop strings at once. */
function buildAutomaton(stops: readonly string[]): State {
  const root = newState(0);
  for (const stop of stops) {
    let state = root;
    for (const c of stop.split("")) {
      let next = state.next.get(c);
      if (!next) state.next.set(c, next = newState(state.depth + 1));
      state = next;
    }
    state.stop = stop;
  }
  const queue: State[] = [root];
  for (const state of queue) {
    for (const [c, next] of state.next) {
      next.fail = state === root ? root : step(root, state.fail!, c);
      next.stop ??= next.fail.stop;
      queue.push(next);
    }
  }
  return root;
}

function step(root: State, from: State, c: string): State {
  let state: State | null = from;
  while (state) {
    const next = state.next.get(c);
    if (next) return next;
    state = state.fail;
  }
  return root;
}

export interface StopOutcome {
  /** Text that is certain now: no part of it belongs to a stop string. */
  readonly text: string;
  /** The stop string that was found; the text before it has all been given out. */
  readonly stop: string | null;
}

/**
 * The stop string that ends first wins; of several that end together, the longest. So the outcome does
 * not depend on how the text was cut into pieces.
 */
export class StopMatcher {
  readonly #root: State;
  #state: State;
  #held = "";
  #stopped = false;

  /** Throws UserError for an empty stop string. */
  constructor(stops: readonly string[]) {
    if (stops.includes("")) throw new UserError("A stop string must not be empty");
    this.#root = buildAutomaton(stops);
    this.#state = this.#root;
  }

  /** Takes the next piece. After a stop string was found there is no more text. */
  push(piece: string): StopOutcome {
    if (this.#stopped) return { text: "", stop: null };
    const text = this.#held + piece;
    let state = this.#state;
    for (let i = this.#held.length; i < text.length; i++) {
      state = step(this.#root, state, text[i]);
      if (state.stop === null) continue;
      this.#stopped = true;
      this.#held = "";
      return { text: text.slice(0, i + 1 - state.stop.length), stop: state.stop };
    }
    this.#state = state;
    const certain = text.length - state.depth;
    this.#held = text.slice(certain);
    return { text: text.slice(0, certain), stop: null };
  }

  /** The text still held back, at the end of the stream. */
  end(): string {
    const rest = this.#held;
    this.#held = "";
    this.#state = this.#root;
    return rest;
  }
}
