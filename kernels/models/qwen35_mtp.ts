/**
 * The MTP head of Qwen3.5 / Qwen3.6 as records: one attention layer with a cache of its own that sees pairs
 * of a position's hidden row and the token behind it, and drafts the token behind that. Pair p stands at
 * position p, so the head's cache ends one before the trunk's.
 */
import type { Tensor } from "../define.ts";
import { argmax } from "../ops/argmax/op.ts";
import { draftAppend } from "../ops/draft_append/op.ts";
import { embed } from "../ops/embed/op.ts";
import { normPair } from "../ops/norm_pair/op.ts";
import { selectRow } from "../ops/select_row/op.ts";
import { stepPlace } from "../ops/step_place/op.ts";
import { Activations, type Forward, outputHead, project, projectInto, Stream } from "./forward.ts";
import { recordAttention, recordFfn } from "./qwen35_layers.ts";

/** Names of the head's scratch and step block. */
const PREFIX = "mtp.";

/** The head over pairs of `hidden` rows and the tokens behind their positions; its normed rows. */
function recordPairs(f: Forward, hidden: Tensor, y: Tensor): Tensor {
  const { c, s, tape } = f, shape = [s.rows, c.hidden], eps = c.normEps;
  const token = f.scratch("token", shape);
  const table = f.weight("embed");
  tape.emit(embed, { history: f.history, step: f.step, table, y: token }, { ahead: 1 });
  const pair = f.scratch("pair", [s.rows, 2 * c.hidden]);
  const wA = f.weight("mtp.embedNorm"), wB = f.weight("mtp.hiddenNorm");
  tape.emit(normPair, { a: token, b: hidden, wA, wB, y: pair }, { eps });
  const x = project(new Activations(f, pair), ["mtp.fc"]);
  let normed: Tensor | undefined;
  const stream = new Stream(f, x, () => normed ??= f.scratch("normed", shape));
  recordAttention(f, "mtp", "kv.mtp", stream.norm("mtp.inputNorm"), stream);
  recordFfn(f, "mtp", stream.norm("mtp.postNorm"), stream);
  return stream.norm("mtp.norm", () => y).x;
}

/**
 * The end of a play that feeds the head: all rows as pairs, then `drafts` tokens. Comes when the step block
 * has moved on, as the last pair needs the token that was just sampled. Rows of a round that were not kept
 * leave pairs that the next play overwrites.
 */
export function recordDraftHead(f: Forward, hidden: Tensor): void {
  const { c, s, tape, step, history } = f;
  const round = s.output === "round", drafts = s.drafts ?? 0;
  const head = f.apart(PREFIX, s.rows);
  const place = round ? { back: 0, ofRound: 1 } : { back: s.rows, ofRound: 0 };
  tape.emit(stepPlace, { step, at: head.step }, { ahead: 0, ...place });
  const shape = [s.rows, c.hidden];
  const out = s.tapHead ? tape.state("mtp.normed", "f32", shape) : head.scratch("out", shape);
  const rows = recordPairs(head, hidden, out);
  if (s.tapHead) {
    const logits = tape.state("mtp.logits", "f32", [s.rows, c.vocab]);
    projectInto(new Activations(head, rows), [outputHead(c)], logits);
  }
  if (drafts === 0) return;
  const one = f.apart(PREFIX, 1);
  let last: Tensor;
  if (round) {
    last = one.scratch("last", [1, c.hidden]);
    tape.emit(selectRow, { x: rows, step, y: last }, {});
  } else last = tape.view(rows, (s.rows - 1) * c.hidden, [1, c.hidden]);
  for (let index = 0; index < drafts; index++) {
    if (index > 0) {
      tape.emit(stepPlace, { step, at: one.step }, { ahead: index, back: 1, ofRound: 0 });
      last = recordPairs(one, last, one.scratch("out", [1, c.hidden]));
    }
    const logits = project(new Activations(one, last), [outputHead(c)]);
    const picked = one.scratch("picked", [1], "u32");
    tape.emit(argmax, { logits, step, picked }, {});
    tape.emit(draftAppend, { picked, step, history }, { index });
  }
}
