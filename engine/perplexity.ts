/**
 * Perplexity of a text: ids in consecutive windows, each from an empty state, every token but a window's
 * first one predicted.
 */
import type { PerplexityOptions, PerplexityResult } from "./api_types.ts";
import { UserError } from "./errors.ts";
import type { Session } from "./session.ts";

export async function perplexity(
  session: Session,
  ids: Uint32Array,
  options: PerplexityOptions,
): Promise<PerplexityResult & { readonly windows: readonly number[] }> {
  const { window, onProgress } = options;
  if (window < 2 || window > session.ctx) {
    throw new UserError(
      `Perplexity windows of ${window} tokens: give 2 to ${session.ctx}, the context.`,
    );
  }
  if (session.model.device.info.kind === "null") {
    throw new UserError(
      "The null device computes nothing: no text has a perplexity on it. Use cpu.",
    );
  }
  if (ids.length < 2) {
    throw new UserError("The text has fewer than two tokens: nothing to predict.");
  }
  let sum = 0, predictions = 0;
  const windows: number[] = [];
  for (let at = 0; at + 1 < ids.length; at += window) {
    const part = Uint32Array.from(ids.subarray(at, Math.min(at + window, ids.length)));
    const nll = await windowNll(session, part);
    const total = nll.reduce((a, b) => a + b, 0);
    sum += total;
    predictions += nll.length;
    windows.push(total / nll.length);
    onProgress?.({ stage: "perplexity", done: at + part.length, total: ids.length });
  }
  const nll = sum / predictions;
  return {
    nll,
    perplexity: Math.exp(nll),
    predictions,
    windows,
    ...(options.textBytes ? { bitsPerByte: sum / Math.LN2 / options.textBytes } : {}),
  };
}

async function windowNll(session: Session, ids: Uint32Array<ArrayBuffer>): Promise<number[]> {
  session.reset();
  const out: number[] = [];
  for (let at = 0; at < ids.length; at += session.prefillRows) {
    const chunk = ids.slice(at, at + session.prefillRows);
    const next = ids[at + chunk.length];
    const nll = await session.forward(chunk, "nll", next === undefined ? {} : { next });
    // The row behind the last id predicts nothing that is known.
    out.push(...(next === undefined ? nll.subarray(0, -1) : nll));
  }
  return out;
}
