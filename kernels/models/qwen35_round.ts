/**
 * The end of a speculative round as records: every row draws the token behind it, those drafts are kept
 * that were drawn, and the recurrent layers take up the rows kept. Owns no layer.
 */
import { sample } from "../ops/sample/op.ts";
import { specAccept } from "../ops/spec_accept/op.ts";
import { type Activations, type Forward, outputHead, projectInto } from "./forward.ts";
import type { Recurrent } from "./qwen35_recurrent.ts";

/** Words from one drawn token to the next: tensors begin at multiples of 16 bytes. */
const PITCH = 4;

/**
 * `h` are the final normed rows. A draft is kept where the row before it draws that very token with the filters,
 * penalties and random numbers of its own position, so the stream is that of one row at a time under the same seed.
 */
export function recordRound(f: Forward, h: Activations, recurrent: Recurrent): void {
  const { c, s, tape, step, history } = f;
  const logits = tape.state("logits", "f32", [s.rows, c.vocab]);
  projectInto(h, [outputHead(c)], logits);
  const picked = f.scratch("picked", [s.rows, PITCH], "u32");
  for (let r = 0; r < s.rows; r++) {
    const row = tape.view(logits, r * c.vocab, [1, c.vocab]);
    // Memory of its own for each row, so that all rows draw at a time.
    const work = f.scratch("work", [2, c.vocab]);
    const drawn = tape.view(picked, r * PITCH, [1]);
    tape.emit(sample, { logits: row, step, history, work, picked: drawn }, { rows: r + 1 });
  }
  tape.emit(specAccept, { picked, step, history }, {});
  recurrent.commit();
}
