/**
 * Plays where they cost least. Another thread and back take longer than all else that a call costs the host, so
 * calls that end in a moment are made on the calling thread; the event loop still gets its turns.
 */
import type { LoadedTape } from "../ffi/abi/handle.ts";

const SHORT_MS = 4;
/** Without a turn of the event loop for this long, no call is short. */
const TURN_MS = 20;

/** How long a play took when a tape was last played. */
const playMs = new WeakMap<LoadedTape, number>();
let turnedAt = -Infinity;
/** Calls on other threads, for which one on this thread might have to wait. */
let away = 0;

/** Plays up to `times` times; returns how often it did. */
export async function playSoon(tape: LoadedTape, times: number): Promise<number> {
  const begun = performance.now(), expected = (playMs.get(tape) ?? Infinity) * times;
  const here = away === 0 && expected < SHORT_MS && begun - turnedAt < TURN_MS;
  const played = here ? tape.play(times) : await playAway(tape, times);
  if (played > 0) playMs.set(tape, (performance.now() - begun) / played);
  return played;
}

async function playAway(tape: LoadedTape, times: number): Promise<number> {
  away++;
  try {
    return await tape.playAsync(times);
  } finally {
    away--;
    turnedAt = performance.now();
  }
}
