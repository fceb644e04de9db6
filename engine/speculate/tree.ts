/**
 * Trees of draft tokens: what grows them, the rows that verify them, and the walk that accepts. The root is the
 * anchor, the timeline's last token, which is no draft: its children are what may follow the timeline, the
 * children of each draft what may follow the timeline and the drafts down to it. Knows no model and no device;
 * only attention can verify branches, a recurrent state cannot.
 */
import type { Draft } from "./drafter.ts";

/** At most `most` distinct tokens that may follow `tokens`, best first. */
export type Continuations = (tokens: readonly number[], most: number) => readonly number[];

export interface TreeLimits {
  /** Children of one node. */
  readonly branching: number;
  /** Drafts on a path. */
  readonly depth: number;
  /** Drafts of the whole tree. */
  readonly nodes: number;
}

/** Rows in depth-first order, row 0 the anchor; a row stands behind the row that it follows. */
export interface Tree {
  readonly tokens: readonly number[];
  /** The row that each one follows; -1 for the anchor. */
  readonly parents: readonly number[];
  /** Steps from the anchor: row i's position, for RoPE, is that of the anchor plus depths[i]. */
  readonly depths: readonly number[];
}

interface Node {
  readonly token: number;
  readonly children: Node[];
}

function flatten(anchor: Node): Tree {
  const tokens: number[] = [], parents: number[] = [], depths: number[] = [];
  const visit = (node: Node, parent: number, depth: number) => {
    const row = tokens.push(node.token) - 1;
    parents.push(parent);
    depths.push(depth);
    for (const child of node.children) visit(child, row, depth + 1);
  };
  visit(anchor, -1, 0);
  return { tokens, parents, depths };
}

/**
 * The tree behind `timeline`, whose last token is the anchor. All children of a node are taken from the
 * budget before any of theirs, and the best child grows first: where the budget is short the likeliest
 * path is the longest.
 */
export function growTree(
  timeline: ArrayLike<number>,
  continuations: Continuations,
  limits: TreeLimits,
): Tree {
  if (timeline.length === 0) throw new RangeError("A tree of drafts needs a token to follow");
  const path = Array.from(timeline);
  let left = limits.nodes;
  const grow = (node: Node, depth: number) => {
    const most = Math.min(limits.branching, left);
    if (depth >= limits.depth || most <= 0) return;
    for (const token of new Set(continuations(path, most).slice(0, most))) {
      node.children.push({ token, children: [] });
    }
    left -= node.children.length;
    for (const child of node.children) {
      path.push(child.token);
      grow(child, depth + 1);
      path.pop();
    }
  };
  const anchor: Node = { token: path[path.length - 1], children: [] };
  grow(anchor, 0);
  return flatten(anchor);
}

/** The tree with one branch. */
export function chainTree(anchor: number, ids: readonly number[]): Tree {
  const tokens = [anchor, ...ids];
  return { tokens, parents: tokens.map((_, i) => i - 1), depths: tokens.map((_, i) => i) };
}

/** A tree as the draft of a round: the anchor is the timeline's own. */
export function draftOf(tree: Tree): Draft {
  return { ids: tree.tokens.slice(1), parents: tree.parents.slice(1).map((row) => row - 1) };
}

/** Rows from the anchor down to `row`, both with them. */
export function rootPath(tree: Tree, row: number): number[] {
  const path: number[] = [];
  for (let i = row; i >= 0; i = tree.parents[i]) path.unshift(i);
  return path;
}

/** The mask of attn_tree, [rows, stride]: row i sees itself and the rows that it follows. */
export function treeMask(tree: Tree, stride: number = tree.tokens.length): Float32Array {
  const rows = tree.tokens.length;
  if (stride < rows) {
    throw new RangeError(`A mask of ${rows} rows does not fit in ${stride} columns`);
  }
  const mask = new Float32Array(rows * stride).fill(-Infinity);
  for (let i = 0; i < rows; i++) {
    for (const j of rootPath(tree, i)) mask[i * stride + j] = 0;
  }
  return mask;
}

export interface Walk {
  /** Rows whose tokens are final, the anchor first. */
  readonly rows: readonly number[];
  /** The tokens that the walk makes: accepted drafts, then the model's own next one. */
  readonly tokens: readonly number[];
}

/** Follows the model through the tree: oracle(i) is the token that it picks behind row i. */
export function verifyTree(tree: Tree, oracle: (row: number) => number): Walk {
  const rows = [0], tokens: number[] = [];
  for (let row = 0; row >= 0;) {
    const picked = oracle(row);
    tokens.push(picked);
    const parent = row;
    row = tree.parents.findIndex((p, i) => p === parent && tree.tokens[i] === picked);
    if (row >= 0) rows.push(row);
  }
  return { rows, tokens };
}

function endsAt(tokens: readonly number[], end: number, gram: readonly number[]): boolean {
  return gram.every((token, i) => tokens[end - gram.length + i] === token);
}

/**
 * What followed the timeline's last tokens earlier in it: for the longest of `longest` down to `shortest`
 * tokens that came before, most frequent first, ties to the lower id.
 */
export function ngramContinuations(longest: number, shortest: number): Continuations {
  return (tokens, most) => {
    for (let n = Math.min(longest, tokens.length - 1); n >= Math.max(shortest, 1); n--) {
      const gram = tokens.slice(tokens.length - n), counts = new Map<number, number>();
      for (let end = n; end < tokens.length; end++) {
        if (!endsAt(tokens, end, gram)) continue;
        counts.set(tokens[end], (counts.get(tokens[end]) ?? 0) + 1);
      }
      if (counts.size === 0) continue;
      return [...counts].sort(([a, na], [b, nb]) => nb - na || a - b).slice(0, most)
        .map(([token]) => token);
    }
    return [];
  };
}
