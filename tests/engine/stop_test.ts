/** Stop strings: against a plain search, for random texts cut in random places. */
import assert from "node:assert/strict";
import { UserError } from "../../engine/errors.ts";
import { StopMatcher } from "../../engine/stop.ts";
import { below, pick, seeded } from "../random.ts";

/** Runs a matcher over pieces: all text given out, and the stop string if one was found. */
function run(stops: readonly string[], pieces: readonly string[]): [string, string | null] {
  const matcher = new StopMatcher(stops);
  let text = "";
  for (const piece of pieces) {
    const out = matcher.push(piece);
    text += out.text;
    if (out.stop !== null) return [text, out.stop];
  }
  return [text + matcher.end(), null];
}

/** The same by definition: the match that ends first, of those the longest. */
function search(stops: readonly string[], text: string): [string, string | null] {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((s) => text.slice(0, end).endsWith(s))
      .sort((a, b) => b.length - a.length)[0];
    if (found) return [text.slice(0, end - found.length), found];
  }
  return [text, null];
}

Deno.test("cuts exactly before the stop string, however it is split over pieces", () => {
  const text = "Hello User: more";
  for (let i = 0; i <= text.length; i++) {
    for (let j = i; j <= text.length; j++) {
      const pieces = [text.slice(0, i), text.slice(i, j), text.slice(j)];
      assert.deepEqual(run(["User:"], pieces), ["Hello ", "User:"]);
    }
  }
});

Deno.test("holds back only what may still become a stop string", () => {
  const m = new StopMatcher(["END", "ENOUGH"]);
  assert.deepEqual(m.push("the E"), { text: "the ", stop: null });
  assert.deepEqual(m.push("N"), { text: "", stop: null });
  assert.deepEqual(m.push("E"), { text: "EN", stop: null });
  assert.deepEqual(m.push("x"), { text: "Ex", stop: null });
  assert.deepEqual(m.push("EN"), { text: "", stop: null });
  assert.equal(m.end(), "EN");
  assert.deepEqual(m.push("DEND"), { text: "D", stop: "END" });
});

Deno.test("overlapping stop strings: the one that ends first, of those the longest", () => {
  assert.deepEqual(run(["bc", "abcd"], ["abcd"]), ["a", "bc"]);
  assert.deepEqual(run(["bc", "abc"], ["xabc"]), ["x", "abc"]);
  assert.deepEqual(run(["aab"], ["aaab"]), ["a", "aab"]);
  assert.deepEqual(run(["ab", "abab"], ["xabab"]), ["x", "ab"]);
});

Deno.test("gives nothing more after a stop, and all of a text without stop strings", () => {
  const m = new StopMatcher(["."]);
  assert.deepEqual(m.push("a.b"), { text: "a", stop: "." });
  assert.deepEqual(m.push("c"), { text: "", stop: null });
  assert.equal(m.end(), "");
  assert.deepEqual(run([], ["a", "b"]), ["ab", null]);
});

Deno.test("characters outside the basic plane stay whole", () => {
  const m = new StopMatcher(["👍🏽"]);
  assert.deepEqual(m.push("ok 👎"), { text: "ok 👎", stop: null });
  assert.deepEqual(m.push("👍"), { text: "", stop: null });
  assert.deepEqual(m.push("🏿"), { text: "👍🏿", stop: null });
  assert.deepEqual(m.push("👍🏽"), { text: "", stop: "👍🏽" });
});

Deno.test("an empty stop string is refused", () => {
  assert.throws(() => new StopMatcher(["a", ""]), UserError);
});

Deno.test("agrees with a plain search on random texts, stops and cuts", () => {
  const random = seeded(3);
  const word = (max: number) =>
    Array.from({ length: 1 + below(random, max) }, () => pick(random, ["a", "b", "c"])).join("");
  for (let i = 0; i < 3000; i++) {
    const stops = Array.from({ length: 1 + below(random, 4) }, () => word(5));
    const text = word(24);
    const pieces: string[] = [];
    for (let at = 0; at < text.length;) {
      const to = at + 1 + below(random, 4);
      pieces.push(text.slice(at, to));
      at = to;
    }
    assert.deepEqual(run(stops, pieces), search(stops, text), JSON.stringify({ stops, pieces }));
  }
});
