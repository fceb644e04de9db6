/**
 * The tensors of a checkpoint gathered by the weight that they belong to: values or codes, scales and
 * biases of one module side by side. Checks no shapes.
 */
import { type Part, type Place, recognise } from "./names.ts";
import type { SafetensorsFile, StoredTensor } from "./safetensors.ts";

export interface TensorAt extends StoredTensor {
  /** Index of its file in Checkpoint.files. */
  readonly file: number;
}

/** What the checkpoint stores for one weight, or for one expert of it. */
export interface Module {
  /** Name in the file, without `.weight`. */
  readonly path: string;
  readonly expert?: number;
  readonly parts: Partial<Record<Part, TensorAt>>;
}

export type SkippedKind = "vision" | "draft head" | "derived";

export interface Inventory {
  /** By canonical name; more than one where each expert has tensors of its own, in expert order. */
  readonly modules: ReadonlyMap<string, readonly Module[]>;
  readonly skipped: Readonly<Record<SkippedKind, readonly TensorAt[]>>;
  readonly unknown: readonly TensorAt[];
  /** Tensors for a place that another tensor has taken. */
  readonly repeated: readonly TensorAt[];
}

/** `draftHead`: the tensors of the MTP head are weights like the others, not skipped. */
export function takeInventory(files: readonly SafetensorsFile[], draftHead = false): Inventory {
  const modules = new Map<string, Map<number, Module>>();
  const skipped = { vision: [], "draft head": [], derived: [] } as Record<SkippedKind, TensorAt[]>;
  const unknown: TensorAt[] = [], repeated: TensorAt[] = [];
  for (
    const tensor of files.flatMap((f, file) => [...f.tensors.values()].map((t) => ({ ...t, file })))
  ) {
    const known = recognise(tensor.name);
    const at = known.kind === "weight"
      ? known
      : known.kind === "draft head" && draftHead
      ? known.place
      : undefined;
    if (at) {
      if (!place(modules, tensor, at)) repeated.push(tensor);
    } else if (known.kind === "unknown" || known.kind === "weight") unknown.push(tensor);
    else if (known.kind === "draft head" && draftHead) unknown.push(tensor);
    else skipped[known.kind].push(tensor);
  }
  const sorted = new Map<string, Module[]>();
  for (const [name, byExpert] of modules) {
    sorted.set(name, [...byExpert.entries()].sort(([a], [b]) => a - b).map(([, m]) => m));
  }
  return { modules: sorted, skipped, unknown, repeated };
}

/** False when the place is taken, by the same name in another file or under another prefix. */
function place(
  modules: Map<string, Map<number, Module>>,
  tensor: TensorAt,
  { name, part, expert }: Place,
): boolean {
  const byExpert = modules.get(name) ?? new Map<number, Module>();
  modules.set(name, byExpert);
  const whole = byExpert.has(-1);
  if (byExpert.size > 0 && whole !== (expert === undefined)) return false;
  const path = tensor.name.replace(/\.(weight|scales|biases)$/, "");
  const module = byExpert.get(expert ?? -1) ??
    { path, parts: {}, ...expert !== undefined && { expert } };
  if (module.parts[part] || module.path !== path) return false;
  module.parts[part] = tensor;
  byExpert.set(expert ?? -1, module);
  return true;
}
