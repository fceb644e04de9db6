/** The prompt-lookup drafter: what it proposes, and what that costs. */
import assert from "node:assert/strict";
import { NO_DRAFT } from "../../engine/speculate/drafter.ts";
import { ngramDrafter } from "../../engine/speculate/ngram.ts";
import { below, seeded } from "../random.ts";

function proposed(tokens: readonly number[], room = 4): readonly number[] {
  return ngramDrafter().propose(tokens, room).ids;
}

/** The same by looking through the whole timeline, latest place first. */
function scanned(tokens: readonly number[], room: number): number[] {
  const end = tokens.length;
  for (const n of [3, 2]) {
    for (let from = end - n - 1; from >= 0; from--) {
      if (!tokens.slice(end - n).every((id, i) => id === tokens[from + i])) continue;
      const all = [...tokens];
      for (let i = 0; i < room; i++) all.push(all[from + n + i]);
      return all.slice(end);
    }
  }
  return [];
}

Deno.test("ngram: nothing to look up, nothing proposed", () => {
  for (const tokens of [[], [1], [1, 2], [1, 1], [1, 2, 3, 4, 5]]) {
    assert.deepEqual(proposed(tokens), [], String(tokens));
  }
  assert.equal(ngramDrafter().propose([1, 2, 3, 1, 2], 0), NO_DRAFT);
});

Deno.test("ngram: a single token that stood here before is not enough", () => {
  assert.deepEqual(proposed([1, 2, 3, 4, 1]), []);
  assert.deepEqual(proposed([9, 1, 2, 8, 1]), []);
});

Deno.test("ngram: three tokens win over two, two are tried then", () => {
  assert.deepEqual(proposed([1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], 1), [7]);
  assert.deepEqual(proposed([1, 2, 3, 7, 9, 2, 3, 8, 5, 2, 3], 1), [8]);
});

Deno.test("ngram: the most recent place wins", () => {
  assert.deepEqual(proposed([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 6, 1, 2, 3], 2), [6, 1]);
});

Deno.test("ngram: what was found may lie over what is looked up", () => {
  assert.deepEqual(proposed([5, 5, 5], 3), [5, 5, 5]);
  assert.deepEqual(proposed([9, 5, 5, 5, 5], 2), [5, 5]);
  assert.deepEqual(proposed([1, 2, 1, 2], 5), [1, 2, 1, 2, 1]);
});

Deno.test("ngram: text of any period goes on", () => {
  for (let period = 1; period <= 40; period++) {
    const text = Array.from({ length: 2 * period + 20 }, (_, i) => 100 + i % period);
    const start = period + 3;
    assert.deepEqual(proposed(text.slice(0, start), 15), text.slice(start, start + 15));
  }
});

Deno.test("ngram: a timeline that grows in steps of any size is proposed for as by a scan", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = seeded(seed), drafter = ngramDrafter(), tokens: number[] = [];
    const kinds = 2 + seed % 9;
    drafter.propose([7, 7, 7, 7], 3);
    drafter.begin();
    while (tokens.length < 120) {
      const more = below(random, 5);
      for (let i = 0; i < more; i++) tokens.push(below(random, kinds) * 40_000);
      const room = below(random, 16);
      const { ids } = drafter.propose(tokens, room);
      assert.deepEqual(ids, scanned(tokens, room), `seed ${seed}: ${tokens}`);
    }
  }
});

Deno.test("ngram: a token costs a few reads, however long the timeline is", () => {
  const tokens: number[] = [], drafter = ngramDrafter();
  let reads = 0;
  const watched = new Proxy(tokens, {
    get(all, name) {
      if (typeof name === "string" && /^\d+$/.test(name)) reads++;
      return Reflect.get(all, name);
    },
  });
  const random = seeded(3), costs: number[] = [];
  for (let i = 0; i < 20_000; i++) {
    tokens.push(below(random, 50));
    reads = 0;
    drafter.propose(watched, 4);
    costs.push(reads);
  }
  assert.ok(Math.max(...costs) <= 3 + 1 + 4, `${Math.max(...costs)} reads`);
});
