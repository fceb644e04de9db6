/**
 * What a session's plays cost in bytes and floating point operations, from the tapes that it records for
 * them; loads nothing. Owns the walk over calls, key buckets and prefill chunks.
 */
import { type Cost, costOfTape } from "../ffi/tape/cost.ts";
import type { PlannedTape } from "../ffi/tape/plan.ts";
import {
  type ForwardShape,
  type KvType,
  type Output,
  ROWS_MAX,
} from "../kernels/models/forward.ts";
import { keyBucket } from "./session.ts";
import { type ForwardModel, planForward } from "./state.ts";

export interface CostSettings {
  readonly ctx: number;
  readonly kv: KvType;
  readonly prefillRows: number;
}

/** Distinct experts that so many rows use in a layer. */
export type DistinctExperts = (rows: number) => number | undefined;

export class Coster {
  readonly #tapes = new Map<string, PlannedTape>();

  constructor(readonly model: ForwardModel, readonly settings: CostSettings) {}

  /** One play of `rows` tokens behind `pos` others; `keys` bounds what its run of plays will see. */
  play(rows: number, pos: number, keys: number, output: Output, distinct: DistinctExperts): Cost {
    const at = { pos, ...distinctAt(distinct(rows)) };
    return costOfTape(this.tape(rows, keys, output), at);
  }

  /** A decode of `tokens` in one call behind `pos` others: the mean of its plays. */
  decode(tokens: number, pos: number, distinct: DistinctExperts): Cost {
    // Costs grow evenly with the position, so the mean is that of the middle.
    return this.play(1, pos + (tokens - 1) / 2, pos + tokens, "sample", distinct);
  }

  /** The chunks of a prefill, in order. */
  prefill(tokens: number, pos: number, distinct: DistinctExperts): { rows: number; cost: Cost }[] {
    const out: { rows: number; cost: Cost }[] = [];
    for (let at = 0; at < tokens;) {
      const rows = Math.min(this.settings.prefillRows, tokens - at);
      const last = at + rows === tokens, begin = pos + at;
      const output = last ? "sample" : "none";
      out.push({ rows, cost: this.play(rows, begin, begin + rows, output, distinct) });
      at += rows;
    }
    return out;
  }

  tape(rows: number, keys: number, output: Output): PlannedTape {
    const { ctx, kv } = this.settings;
    const shape: ForwardShape = {
      rows,
      ctx,
      keys: rows <= ROWS_MAX ? keyBucket(keys, ctx) : ctx,
      kv,
      output,
      plan: this.model.plan,
    };
    const key = JSON.stringify(shape);
    let tape = this.#tapes.get(key);
    if (!tape) this.#tapes.set(key, tape = planForward(this.model, shape));
    return tape;
  }
}

function distinctAt(n: number | undefined) {
  return n === undefined ? {} : { distinctExperts: n };
}

/** Bytes that must cross the memory: everything but scratch, which a good player keeps near. */
export function movedBytes({ bytes }: Cost): number {
  return bytes.weights + bytes.kv + bytes.recurrent;
}
