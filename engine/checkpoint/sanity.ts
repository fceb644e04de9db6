/**
 * Cheap looks at stored values that catch damaged and wrongly converted checkpoints: some places of every
 * tensor, the first norm and all decays. Proves nothing about what it did not look at.
 */
import { type DenseFormat, type Format, isAffine } from "../../kernels/formats/affine.ts";
import { firstFive, shownName, UserError } from "../errors.ts";
import { counted } from "../wording.ts";
import type { Range } from "./tensor_data.ts";
import type { PlannedWeight, WeightPlan } from "./weights.ts";

export interface ValueCheck {
  /** Mean of the first layer's input norm: near 1 when stored and read rightly. */
  readonly normMean: number;
  readonly warnings: readonly string[];
  /** Tensors with values that are no finite numbers: nothing computed with them means anything. */
  readonly damage: readonly string[];
}

/** Looks at a few hundred values of every tensor, the first norm and all decays. */
export async function checkValues(plan: WeightPlan): Promise<ValueCheck> {
  const warnings: string[] = [];
  const norm = await valuesOf(plan.weights.find((w) => w.name === "layers.0.inputNorm"));
  const normMean = norm.reduce((sum, v) => sum + v, 0) / norm.length;
  const damage = damaged(plan.weights);
  if (damage.length > 0) return { normMean, warnings, damage };
  if (!(normMean > 0.5 && normMean < 2)) {
    const why = plan.norms.centred ? "it may hold the 1 already" : "it may lack the 1";
    const mean = normMean.toPrecision(3);
    warnings.push(
      `layers.0.inputNorm has mean ${mean}, not about 1: ${why} (${plan.norms.evidence})`,
    );
  }
  for (const w of plan.weights.filter((w) => w.name.endsWith(".gdn.negA"))) {
    const decays = await valuesOf(w);
    if (!decays.every((v) => v < 0 && v > -Infinity)) {
      warnings.push(`${shownName(w.name)} holds values that are no decays: A_log may be damaged`);
    }
  }
  return { normMean, warnings, damage };
}

/** The error for a checkpoint with damage. */
export function damageError(path: string, damage: readonly string[]): UserError {
  return new UserError(
    `Checkpoint ${path} is damaged: ${
      counted(damage.length, "tensor holds", "tensors hold")
    } NaN or ` +
      `infinite values (${
        firstFive(damage)
      }); expected finite numbers. Download or convert it again.`,
  );
}

function valuesOf(w: PlannedWeight | undefined): Promise<Float32Array> {
  if (w?.source.kind !== "computed") throw new Error(`No computed weight: ${w?.name}`);
  return w.source.make();
}

/** Values of one look; the places of a tensor are its beginning, middle and end. */
const LOOK_VALUES = 256;
const PARTS = ["values", "scales", "biases"];

/** Names of the tensors in which a look met something that is no finite number. */
function damaged(weights: readonly PlannedWeight[]): string[] {
  using files = new OpenFiles();
  const seen = new Set<string>(), found: string[] = [];
  for (const w of weights) {
    if (seen.has(w.stored)) continue;
    seen.add(w.stored);
    for (const { part, format, ranges } of numbersOf(w)) {
      const bytes = format === "f32" ? 4 : 2;
      const places = [0, (ranges.length - 1) / 2, ranges.length - 1].map((i, place) =>
        placeIn(ranges[Math.floor(i)], place / 2, bytes)
      );
      if (places.every((p) => allFinite(format, files.read(p)))) continue;
      found.push(part === 0 ? shownName(w.stored) : `${PARTS[part]} of ${shownName(w.stored)}`);
    }
  }
  return found;
}

interface Numbers {
  readonly part: number;
  readonly format: DenseFormat;
  readonly ranges: readonly Range[];
}

/** The parts of a weight that are floating point numbers: all but codes. */
function numbersOf({ format, source }: PlannedWeight): Numbers[] {
  if (source.kind === "computed") {
    return [{ part: 0, format: source.stored, ranges: [source.from] }];
  }
  const parts = source.kind === "mapped" ? source.parts.map((r) => [r]) : source.parts;
  const dense = isAffine(format) ? scaleFormat(format) : format as DenseFormat;
  return parts.map((ranges, part) => ({ part, format: dense, ranges }))
    .filter(({ part }) => part > 0 || !isAffine(format));
}

function scaleFormat(format: Format): DenseFormat {
  return format.endsWith("_bf16") ? "bf16" : "f16";
}

/** Whole values of a range around a share of its length. */
function placeIn(range: Range, share: number, valueBytes: number): Range {
  const bytes = Math.min(range.bytes, LOOK_VALUES * valueBytes);
  const values = Math.floor((range.bytes - bytes) / valueBytes * share);
  return { ...range, offset: range.offset + values * valueBytes, bytes };
}

/** True unless some value has the exponent of infinity and NaN. */
function allFinite(format: DenseFormat, bytes: Uint8Array<ArrayBuffer>): boolean {
  if (format === "f32") {
    return new Uint32Array(bytes.buffer, 0, bytes.length / 4)
      .every((v) => (v & 0x7f800000) !== 0x7f800000);
  }
  const exponent = format === "bf16" ? 0x7f80 : 0x7c00;
  return new Uint16Array(bytes.buffer, 0, bytes.length / 2)
    .every((v) => (v & exponent) !== exponent);
}

/** Files that stay open between looks; reads in place, as a look takes microseconds. */
class OpenFiles implements Disposable {
  readonly #files = new Map<string, Deno.FsFile>();

  read({ path, offset, bytes }: Range): Uint8Array<ArrayBuffer> {
    let file = this.#files.get(path);
    if (!file) this.#files.set(path, file = Deno.openSync(path));
    file.seekSync(offset, Deno.SeekMode.Start);
    const to = new Uint8Array(bytes);
    for (let done = 0; done < bytes;) {
      const n = file.readSync(to.subarray(done));
      if (n === null) {
        throw new UserError(`${path} ended early while it was read. Download it again.`);
      }
      done += n;
    }
    return to;
  }

  [Symbol.dispose](): void {
    for (const file of this.#files.values()) file.close();
  }
}
