/** Trees of drafts against cases worked out by hand. */
import assert from "node:assert/strict";
import {
  chainTree,
  type Continuations,
  draftOf,
  growTree,
  ngramContinuations,
  rootPath,
  treeMask,
  verifyTree,
} from "../../engine/speculate/tree.ts";

const NO = -Infinity;
const WIDE = { branching: 9, depth: 9, nodes: 99 };

/** What may follow, by the tokens so far joined with spaces. */
function script(table: Readonly<Record<string, number[]>>): Continuations {
  return (tokens) => table[tokens.join(" ")] ?? [];
}

/** 1 2 -> 3 (-> 5 (-> 7), 6), 4 (-> 3). */
const BRANCHED = growTree(
  [1, 2],
  script({ "1 2": [3, 4], "1 2 3": [5, 6], "1 2 3 5": [7], "1 2 4": [3] }),
  WIDE,
);

Deno.test("tree: rows come depth first, with parents, depths and root paths", () => {
  assert.deepEqual(BRANCHED, {
    tokens: [2, 3, 5, 7, 6, 4, 3],
    parents: [-1, 0, 1, 2, 1, 0, 5],
    depths: [0, 1, 2, 3, 2, 1, 2],
  });
  assert.deepEqual([0, 3, 4, 6].map((row) => rootPath(BRANCHED, row)), [
    [0],
    [0, 1, 2, 3],
    [0, 1, 4],
    [0, 5, 6],
  ]);
});

Deno.test("tree: as a draft it leaves the anchor out", () => {
  assert.deepEqual(draftOf(BRANCHED), {
    ids: [3, 5, 7, 6, 4, 3],
    parents: [-1, 0, 1, 0, -1, 4],
  });
  assert.deepEqual(draftOf(chainTree(9, [4, 4])), { ids: [4, 4], parents: [-1, 0] });
});

Deno.test("tree: the mask shows a row to itself and to what follows it", () => {
  // deno-fmt-ignore
  assert.deepEqual([...treeMask(BRANCHED)], [
    0, NO, NO, NO, NO, NO, NO,
    0,  0, NO, NO, NO, NO, NO,
    0,  0,  0, NO, NO, NO, NO,
    0,  0,  0,  0, NO, NO, NO,
    0,  0, NO, NO,  0, NO, NO,
    0, NO, NO, NO, NO,  0, NO,
    0, NO, NO, NO, NO,  0,  0,
  ]);
  // deno-fmt-ignore
  assert.deepEqual([...treeMask(chainTree(1, [2]), 3)], [0, NO, NO,  0, 0, NO]);
  assert.throws(() => treeMask(BRANCHED, 6), /mask of 7 rows does not fit in 6 columns/);
});

Deno.test("tree: continuations of the history are children of the anchor, not of the first of them", () => {
  // After 1 2 came 3 twice and 4 once. Hung under the first of them, 4 would stand two tokens on.
  const timeline = [1, 2, 3, 9, 1, 2, 4, 8, 1, 2, 3, 9, 1, 2];
  const tree = growTree(timeline, ngramContinuations(2, 2), { branching: 2, depth: 2, nodes: 9 });
  assert.deepEqual(tree, {
    tokens: [2, 3, 9, 4, 8],
    parents: [-1, 0, 1, 0, 3],
    depths: [0, 1, 2, 1, 2],
  });
  // The model goes on with 4 8: both are accepted, without a repeated token.
  assert.deepEqual(verifyTree(tree, (row) => ({ 0: 4, 3: 8, 4: 1 })[row]!), {
    rows: [0, 3, 4],
    tokens: [4, 8, 1],
  });
});

Deno.test("tree: verifying walks matching children and ends with the model's own token", () => {
  const walk = (picks: Record<number, number>) =>
    verifyTree(BRANCHED, (row) => {
      assert.ok(row in picks, `row ${row} is not on the path`);
      return picks[row];
    });
  assert.deepEqual(walk({ 0: 99 }), { rows: [0], tokens: [99] });
  assert.deepEqual(walk({ 0: 3, 1: 5, 2: 7, 3: 11 }), {
    rows: [0, 1, 2, 3],
    tokens: [3, 5, 7, 11],
  });
  assert.deepEqual(walk({ 0: 3, 1: 6, 4: 5 }), { rows: [0, 1, 4], tokens: [3, 6, 5] });
  // 3 is a child of the anchor and of 4: each time the one that follows the path.
  assert.deepEqual(walk({ 0: 4, 5: 3, 6: 5 }), { rows: [0, 5, 6], tokens: [4, 3, 5] });
  assert.deepEqual(walk({ 0: 4, 5: 5 }), { rows: [0, 5], tokens: [4, 5] });
});

Deno.test("tree: branching, depth and nodes are capped, siblings before their children", () => {
  const always: Continuations = (_, most) => [10, 11, 12, 13].slice(0, most);
  const grown = (branching: number, depth: number, nodes: number) =>
    growTree([5], always, { branching, depth, nodes });
  assert.deepEqual(grown(2, 2, 99).tokens, [5, 10, 10, 11, 11, 10, 11]);
  assert.deepEqual(grown(2, 3, 5), {
    tokens: [5, 10, 10, 10, 11, 11],
    parents: [-1, 0, 1, 2, 1, 0],
    depths: [0, 1, 2, 3, 2, 1],
  });
  assert.deepEqual(grown(3, 9, 2).tokens, [5, 10, 11]);
  for (const none of [grown(0, 3, 9), grown(3, 0, 9), grown(3, 9, 0)]) {
    assert.deepEqual(none, { tokens: [5], parents: [-1], depths: [0] });
  }
  // A drafter that gives more than asked for, and tokens twice.
  const greedy: Continuations = () => [7, 7, 8, 9];
  assert.deepEqual(growTree([5], greedy, { branching: 3, depth: 1, nodes: 9 }).tokens, [5, 7, 8]);
});

Deno.test("tree: without a timeline there is nothing to follow", () => {
  assert.throws(() => growTree([], script({}), WIDE), /needs a token to follow/);
  assert.deepEqual(growTree([4], ngramContinuations(3, 2), WIDE).tokens, [4]);
});

Deno.test("tree: n-gram continuations by the longest match, then count, then id", () => {
  const follow = ngramContinuations(3, 1);
  assert.deepEqual(follow([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], 4), [4]);
  assert.deepEqual(follow([7, 5, 7, 6, 7, 6, 7, 4, 8, 7], 4), [6, 4, 5]);
  assert.deepEqual(follow([7, 5, 7, 6, 7, 6, 7, 4, 8, 7], 2), [6, 4]);
  // A match may reach into the tokens that it is compared with.
  assert.deepEqual(follow([3, 3, 3, 3], 4), [3]);
  assert.deepEqual(follow([1, 2, 3], 4), []);
  assert.deepEqual(ngramContinuations(3, 2)([7, 5, 8, 7], 4), []);
  assert.deepEqual(follow([], 4), []);
});
