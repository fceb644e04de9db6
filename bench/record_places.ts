/** Where in the model each record of a tape belongs, told by the weights and states that it names. Plays nothing. */
import type { PlannedTape } from "../ffi/tape/plan.ts";
import type { TapeRecord } from "../ffi/tape/tape.ts";

/** Layers of each kind, the MTP head, and what stands before the first layer and behind the last. */
export const PARTS = ["gdn", "attention", "head", "ends"] as const;

export interface Place {
  readonly part: (typeof PARTS)[number];
  /** Null outside of layers, and for what does something to all layers of a kind. */
  readonly layer: number | null;
}

const ENDS: Place = { part: "ends", layer: null };
const HEAD: Place = { part: "head", layer: null };
const GDN: Place = { part: "gdn", layer: null };
const LAYER = /^(?:layers|kv)\.(\d+)(?:\.|$)/;
/** The states of all recurrent layers: of the one that records are at, or of them all. */
const STATES = /^(?:gdn|conv)\.states$/;
const AT_ENDS = /^(?:embed|finalNorm|lmHead|logits|nll|picked)$/;

/** A record that names nothing of a place stands where the one before it does. */
export function placesOf(
  { records, slots }: Pick<PlannedTape, "records" | "slots">,
  kinds: readonly ("gdn" | "attention")[],
): Place[] {
  let place = ENDS;
  return records.map((r) => {
    const names = tensorsOf(r).filter((t) => slots[t.slots[0]].kind !== "scratch")
      .map((t) => t.name);
    // The head looks into the embedding too, and its output goes through that of the trunk.
    if (names.some((n) => n.startsWith("mtp.") || n.startsWith("kv.mtp"))) return place = HEAD;
    if (place === HEAD) return place;
    for (const name of names) {
      const layer = LAYER.exec(name);
      if (layer) return place = { part: kinds[Number(layer[1])], layer: Number(layer[1]) };
      if (AT_ENDS.test(name)) return place = ENDS;
      if (STATES.test(name) && place === ENDS) return place = GDN;
    }
    return place;
  });
}

function tensorsOf(r: TapeRecord) {
  return Object.keys(r.op.tensors).flatMap((key) => r.tensors[key] ?? []);
}
