/**
 * The token ids that a benchmark runs: an endless sequence by place, so that a prompt has exactly as many
 * tokens as were asked for, and a longer one begins with a shorter one. Knows no model.
 */
import { createHash } from "node:crypto";
import { randomWord } from "../engine/model_terms.ts";
import type { Spec } from "./report.ts";

/** Sets prompts apart from weights that are made with the same seed. */
const PROMPT_STREAM = 0x70726f6d;

export interface PromptOptions {
  readonly tokens: Spec["tokens"];
  readonly seed: number;
  /** Ids below this may stand in a prompt. */
  readonly vocab: number;
  /** Ids of the text that `text` repeats; must not be empty then. */
  readonly text?: Uint32Array;
}

export class Prompt {
  constructor(readonly options: PromptOptions) {}

  /** Ids from..to-1. */
  slice(from: number, to: number): Uint32Array<ArrayBuffer> {
    return Uint32Array.from({ length: to - from }, (_, i) => this.#at(from + i));
  }

  /** sha256 of the first `tokens` ids as little-endian u32, hex. */
  digest(tokens: number): string {
    return idsDigest(this.slice(0, tokens));
  }

  #at(i: number): number {
    const { tokens, seed, vocab, text } = this.options;
    if (tokens === "text") return text![i % text!.length];
    const place = tokens === "repeat" ? 0 : i;
    return Math.floor(randomWord(seed, PROMPT_STREAM, place) * vocab / 2 ** 32);
  }
}

export function idsDigest(ids: Uint32Array): string {
  const bytes = new Uint8Array(4 * ids.length), view = new DataView(bytes.buffer);
  ids.forEach((id, i) => view.setUint32(4 * i, id, true));
  return createHash("sha256").update(bytes).digest("hex");
}
