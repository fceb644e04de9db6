/**
 * The memory of the recurrent layers: their states lie one after another in one tensor of each kind, and so do
 * the rows of a round, so that one record commits them all. Owns no layer's formula.
 */
import type { Tensor } from "../define.ts";
import { gdnCommit } from "../ops/gdn_commit/op.ts";
import type { Forward } from "./forward.ts";

/** Rows of a layer in a round are allotted in such numbers: whatever their width, 16 bytes divide them. */
const ROWS_UNIT = 4;

export class Recurrent {
  readonly #states = new Map<string, Tensor>();
  readonly #rows = new Map<string, Tensor>();
  /** Places of layers among the recurrent ones. */
  readonly #places: readonly number[];
  readonly #layers: number;

  constructor(readonly f: Forward) {
    let layers = 0;
    this.#places = f.c.layerKinds.map((kind) => kind === "gdn" ? layers++ : -1);
    this.#layers = layers;
  }

  /** The convolution's past rows, or the matrices of the value heads, of one layer. */
  state(kind: "conv" | "gdn", layer: number, shape: readonly number[]): Tensor {
    const all = this.f.tape.state(`${kind}.states`, "f32", [this.#layers, ...shape]);
    this.#states.set(kind, all);
    return this.#of(all, layer, shape);
  }

  /** Fresh f32 rows of one layer, by their name in gdn_commit: those of a round stay until it commits. */
  rows(name: string, layer: number, shape: readonly number[]): Tensor {
    const { f } = this, [rows, ...row] = shape;
    if (f.s.output !== "round") return f.scratch(name, shape);
    const allotted = [Math.ceil(rows / ROWS_UNIT) * ROWS_UNIT, ...row];
    const all = this.#rows.get(name) ?? f.scratch(name, [this.#layers, ...allotted]);
    this.#rows.set(name, all);
    return this.#of(all, layer, shape);
  }

  #of(all: Tensor, layer: number, shape: readonly number[]): Tensor {
    const pitch = all.shape.slice(1).reduce((n, size) => n * size);
    return this.f.tape.view(all, this.#places[layer] * pitch, shape);
  }

  /** In a round: every layer's states take up the rows that were kept. */
  commit(): void {
    if (this.#layers === 0) return;
    const { tape, step, c: { headMap } } = this.f;
    const { conv: convState, gdn: gdnState } = Object.fromEntries(this.#states);
    const rows = Object.fromEntries(this.#rows);
    tape.emit(gdnCommit, { ...rows, step, convState, gdnState }, { headMap });
  }
}
