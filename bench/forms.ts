/**
 * The same tokens in the forms that a model has for them: one chunk, one by one, and without rounding of
 * activations. Plays them from one state; comparing is in form_check.ts.
 */
import { type Plan, ROWS_MAX } from "../engine/model_terms.ts";
import type { Session } from "../engine/session.ts";
import type { Forms } from "./form_check.ts";
import { RoutingMatch } from "./routing.ts";

type Ids = Uint32Array<ArrayBuffer>;

/** `restore` brings the session back to the state that all forms begin from. */
export async function runForms(
  session: Session,
  ids: Ids,
  restore: () => Promise<void>,
): Promise<Forms> {
  const { moe, layers, topK } = session.model.config, { plan } = session.model;
  await restore();
  const chunk = await session.forward(ids, "logits", moe ? { tapRouting: true } : {});
  // Where experts are nearly equal the forms may choose different ones, and from there on everything
  // differs: so the other forms use the chunk's experts, and their own choices are compared by themselves.
  const chosen = moe ? layerIds(layers, (l) => session.readRouting(l, ids.length)) : [];
  await restore();
  const match = new RoutingMatch(), oneRow: Float32Array[] = [];
  for (let row = 0; row < ids.length; row++) {
    oneRow.push(await likeChunk(session, ids, chosen, row, 1, plan));
    chosen.forEach((all, l) => match.add(rowsOf(all, topK, row, 1), session.readRouting(l, 1)));
  }
  const exact = plan.actInt8 ? await exactRows(session, ids, chosen, restore) : null;
  return { chunk, oneRow, exact, routingMatch: match.share };
}

function layerIds(layers: number, read: (layer: number) => Ids): Ids[] {
  return Array.from({ length: layers }, (_, layer) => read(layer));
}

function rowsOf(all: Ids, topK: number, row: number, rows: number): Ids {
  return all.slice(row * topK, (row + rows) * topK);
}

/** Logits of some rows that use the experts which they used in the chunk. */
async function likeChunk(
  session: Session,
  ids: Ids,
  chosen: readonly Ids[],
  row: number,
  rows: number,
  plan: Plan,
): Promise<Float32Array> {
  const { topK } = session.model.config;
  chosen.forEach((all, layer) => session.writeRouting(layer, rowsOf(all, topK, row, rows)));
  const given = chosen.length > 0 ? { givenRouting: true } as const : {};
  return await session.forward(ids.slice(row, row + rows), "logits", { ...given, plan });
}

/** As many rows at a time as keep each row's bits. */
async function exactRows(
  session: Session,
  ids: Ids,
  chosen: readonly Ids[],
  restore: () => Promise<void>,
): Promise<Float32Array[]> {
  const { config, plan } = session.model, out: Float32Array[] = [];
  await restore();
  for (let row = 0; row < ids.length; row += ROWS_MAX) {
    const rows = Math.min(ROWS_MAX, ids.length - row);
    const logits = await likeChunk(session, ids, chosen, row, rows, { ...plan, actInt8: false });
    for (let r = 0; r < rows; r++) {
      out.push(logits.subarray(r * config.vocab, (r + 1) * config.vocab));
    }
  }
  return out;
}
