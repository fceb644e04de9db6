/** What a sample of routed tokens says about experts: distinct ones of a window, and how uneven they are. */
import type { RoutingFacts } from "./port.ts";

/** `layers` holds, for each layer of experts, the chosen ids [tokens, topK]. */
export function routingFacts(
  layers: readonly Uint32Array[],
  topK: number,
  experts: number,
): RoutingFacts {
  const sampledTokens = layers[0].length / topK;
  return {
    sampledTokens,
    imbalance: meanOf(layers, (ids) => {
      const uses = new Float64Array(experts);
      for (const e of ids) uses[e]++;
      return Math.max(...uses) * experts / ids.length;
    }),
    distinct: (rows) => {
      // More rows than were sampled can only use more experts: the sample is then a lower bound.
      const width = Math.min(rows, sampledTokens) * topK;
      return meanOf(layers, (ids) => {
        let sum = 0, windows = 0;
        for (let at = 0; at + width <= ids.length; at += width) {
          sum += new Set(ids.subarray(at, at + width)).size;
          windows++;
        }
        return sum / windows;
      });
    },
  };
}

function meanOf(layers: readonly Uint32Array[], of: (ids: Uint32Array) => number): number {
  return layers.reduce((sum, ids) => sum + of(ids), 0) / layers.length;
}

/** Counts equal choices of experts, in whatever order they stand. */
export class RoutingMatch {
  #equal = 0;
  #all = 0;

  add(a: Uint32Array, b: Uint32Array): void {
    const other = new Set(b);
    for (const id of a) if (other.has(id)) this.#equal++;
    this.#all += a.length;
  }

  /** Null where nothing was chosen. */
  get share(): number | null {
    return this.#all > 0 ? this.#equal / this.#all : null;
  }
}
