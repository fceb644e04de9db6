/** Where plays are made: short ones on the calling thread, while the event loop gets its turns. */
import assert from "node:assert/strict";
import type { LoadedTape } from "../../ffi/abi/handle.ts";
import { playSoon } from "../../engine/short_plays.ts";

/** A tape whose plays take so long; `calls` says where they were made. */
function tapeOf(ms: number, calls: ("here" | "away")[]): LoadedTape {
  const wait = (times: number) => {
    for (const from = performance.now(); performance.now() - from < ms * times;);
    return times;
  };
  return {
    play: (times = 1) => {
      calls.push("here");
      return wait(times);
    },
    playAsync: (times: number) => {
      calls.push("away");
      return new Promise<number>((done) => setTimeout(() => done(wait(times))));
    },
  } as LoadedTape;
}

Deno.test("short plays: the first and long ones are made on another thread, short ones here", async () => {
  const calls: ("here" | "away")[] = [], tape = tapeOf(0.05, calls);
  await playSoon(tape, 1);
  assert.equal(calls[0], "away");
  assert.equal(await playSoon(tape, 1), 1);
  assert.equal(await playSoon(tape, 1000), 1000);
  assert.equal(calls[2], "away");
  const slow = tapeOf(6, calls);
  for (let i = 0; i < 3; i++) await playSoon(slow, 1);
  assert.deepEqual(calls.slice(3), ["away", "away", "away"]);
});

Deno.test("short plays: the event loop gets turns, and no call here waits for one that is away", async () => {
  const calls: ("here" | "away")[] = [], tape = tapeOf(0.2, calls);
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  for (const from = performance.now(); performance.now() - from < 150;) await playSoon(tape, 1);
  clearInterval(timer);
  const here = calls.filter((c) => c === "here").length;
  assert(here > calls.length / 2, `${here} of ${calls.length} were made here`);
  assert(turns >= 3, `${turns} turns`);
  const [away, other] = [tapeOf(50, []), tapeOf(0.05, calls)];
  await playSoon(other, 1);
  calls.length = 0;
  await Promise.all([playSoon(away, 1), playSoon(other, 1)]);
  assert.deepEqual(calls, ["away"]);
});
