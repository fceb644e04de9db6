/** Counts what a session plays, for tests of what rounds cost. */
import { LoadedTape } from "../../ffi/abi/handle.ts";

export interface Call {
  /** Plays that were asked for, and those that were done. */
  readonly times: number;
  readonly played: number;
}

/** Runs `body` and gives each call into the device that it made. */
export async function callsOf(body: () => Promise<unknown>): Promise<Call[]> {
  const { play, playAsync } = LoadedTape.prototype, calls: Call[] = [];
  LoadedTape.prototype.play = function (times = 1) {
    const played = play.call(this, times);
    calls.push({ times, played });
    return played;
  };
  LoadedTape.prototype.playAsync = async function (times) {
    const played = await playAsync.call(this, times);
    calls.push({ times, played });
    return played;
  };
  try {
    await body();
  } finally {
    Object.assign(LoadedTape.prototype, { play, playAsync });
  }
  return calls;
}
