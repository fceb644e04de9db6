/**
 * Weights on a device. Brings a checkpoint's planned ones there: maps files, copies what must be contiguous,
 * computes the small ones, quantises on the device. Owns their memory; knows neither names of files nor of
 * tensors.
 */
import type { Binding, Device, Memory } from "../ffi/abi/handle.ts";
import { type DeviceKind, OWN_MEMORY_KINDS, WEIGHT_ALIGN } from "../ffi/abi/layout.ts";
import { encodeTape, launchForm } from "../ffi/tape/encode.ts";
import { planTape } from "../ffi/tape/plan.ts";
import { partBytes, type Slot, Tape } from "../ffi/tape/tape.ts";
import type { AffineFormat, Format } from "../kernels/formats/affine.ts";
import type { WeightForm } from "../kernels/models/forward.ts";
import { quantizeAffine } from "../kernels/ops/quantize_affine/op.ts";
import type { Progress } from "./api_types.ts";
import type { Checkpoint } from "./checkpoint/folder.ts";
import type { SafetensorsFile } from "./checkpoint/safetensors.ts";
import { copyRanges, type Range } from "./checkpoint/tensor_data.ts";
import { type PlannedWeight, playedFormat, type WeightPlan } from "./checkpoint/weights.ts";
import { refuseUnlessFree } from "./memory.ts";

const PARTS: readonly Slot["part"][] = ["values", "scales", "biases"];

/** Shape of the stored tensor, which two weights may share (gate and up of all experts). */
function storedShape(w: PlannedWeight): readonly number[] {
  if (w.role !== "experts") return w.shape;
  const [experts, , columns] = w.shape;
  return [experts, w.rowsPerExpert, columns];
}

/** Whether kernels can read the parts where they lie: those of threadgroups load vectors. */
function isAligned(parts: readonly Range[], kind: DeviceKind): boolean {
  return launchForm(kind) === "tasks" ||
    parts.every((r) => r.offset % WEIGHT_ALIGN === 0);
}

/** Bytes that loading allocates beside the mapped files. */
export function copiedBytes(plan: WeightPlan, kind: DeviceKind): number {
  const seen = new Set<string>();
  let sum = 0;
  for (const w of plan.weights) {
    if (seen.has(w.stored)) continue;
    seen.add(w.stored);
    if (w.source.kind === "mapped" && !w.quantizeTo && isAligned(w.source.parts, kind)) continue;
    const format = playedFormat(w);
    for (const part of partsOf(format)) sum += partBytes(format, storedShape(w), part);
  }
  return sum;
}

/** Bytes of the files that a device with memory of its own copies whole, each at its first weight of the plan. */
function uploadedBytes(
  plan: WeightPlan,
  files: readonly { readonly bytes: number }[],
  kind: DeviceKind,
): number[] {
  const copied = new Set<number>();
  return plan.weights.map(({ source }) => {
    if (!OWN_MEMORY_KINDS.includes(kind) || source.kind !== "mapped") return 0;
    if (!isAligned(source.parts, kind)) return 0;
    const fresh = [...new Set(source.parts.flat().map((r) => r.file))].filter((f) =>
      !copied.has(f)
    );
    fresh.forEach((f) => copied.add(f));
    return total(fresh.map((f) => files[f].bytes));
  });
}

function total(bytes: readonly number[]): number {
  return bytes.reduce((sum, n) => sum + n, 0);
}

/** The stage of loading that brings weights onto the device. */
export const LOADING = "loading weights";

/**
 * Bytes that each weight of a plan brings in: whole files where the device copies them, at the first weight of
 * each; nothing where it uses them in place.
 */
export function loadedBytes(
  plan: WeightPlan,
  files: readonly { readonly bytes: number }[],
  kind: DeviceKind,
): number[] {
  const seen = new Set<string>(), uploaded = uploadedBytes(plan, files, kind);
  return plan.weights.map(({ stored, source }, i) => {
    if (seen.has(stored)) return 0;
    seen.add(stored);
    if (source.kind === "computed") return source.from.bytes;
    if (source.kind === "gathered" || !isAligned(source.parts, kind)) {
      return total(source.parts.flat().map((r) => r.bytes));
    }
    return uploaded[i];
  });
}

function partsOf(format: Format): readonly Slot["part"][] {
  return format.startsWith("q") ? PARTS : PARTS.slice(0, 1);
}

/** Weights on a device, by canonical name and by stored tensor. */
export class DeviceWeights implements Disposable {
  readonly forms = new Map<string, WeightForm>();
  readonly #bindings = new Map<string, readonly Binding[]>();
  readonly #memories: Memory[] = [];
  readonly #files = new Map<number, Memory>();

  /** Empty: filled by load(), or by whoever makes weights itself. */
  constructor(readonly device: Device, readonly files: readonly SafetensorsFile[] = []) {}

  /** Loads everything. Frees what it took when it fails. */
  static async load(
    device: Device,
    checkpoint: Checkpoint,
    plan: WeightPlan,
    onProgress?: (p: Progress) => void,
  ): Promise<DeviceWeights> {
    const made = new DeviceWeights(device, checkpoint.files);
    try {
      refuseUnlessFree(
        device,
        copiedBytes(plan, device.info.kind) +
          total(uploadedBytes(plan, checkpoint.files, device.info.kind)),
        `Loading ${checkpoint.path}`,
        "Use a quantised checkpoint or a smaller model.",
      );
      const bytes = loadedBytes(plan, checkpoint.files, device.info.kind);
      let done = 0;
      const tell = () => onProgress?.({ stage: LOADING, done, total: total(bytes), unit: "bytes" });
      tell();
      for (const [i, w] of plan.weights.entries()) {
        await made.#add(w);
        done += bytes[i];
        tell();
      }
      return made;
    } catch (e) {
      made[Symbol.dispose]();
      throw e;
    }
  }

  /** Adds a constant that the model computes itself. */
  addConstant(name: string, values: Float32Array<ArrayBuffer>): void {
    this.#bindings.set(name, [this.#upload(values)]);
  }

  /** Adds a weight of its own: memory for each of its parts, which the caller fills. */
  add(name: string, format: Format, shape: readonly number[]): readonly Binding[] {
    const parts = partsOf(format).map((part): Binding => {
      const bytes = partBytes(format, shape, part);
      return { memory: this.#alloc(bytes), offset: 0, bytes };
    });
    this.outline(name, format, shape);
    this.#bindings.set(name, parts);
    return parts;
  }

  /** Says what a weight is, without memory for it. */
  outline(name: string, format: Format, shape: readonly number[]): void {
    this.forms.set(name, { format, shape, stored: name, firstRow: 0 });
  }

  binding(stored: string, part: Slot["part"]): Binding {
    const found = this.#bindings.get(stored)?.[PARTS.indexOf(part)];
    if (!found) throw new Error(`The model has no ${part} of ${stored}`);
    return found;
  }

  /** Bytes of weights as kernels read them, mapped ones included. */
  get bytes(): number {
    let sum = 0;
    for (const parts of this.#bindings.values()) for (const b of parts) sum += b.bytes;
    return sum;
  }

  /** Bytes of them that lie in memory of their own; the others are used where they lie in their files. */
  get copied(): number {
    return this.#memories.reduce((sum, m) => sum + m.bytes, 0);
  }

  async #add(w: PlannedWeight): Promise<void> {
    const format = playedFormat(w), shape = storedShape(w);
    this.forms.set(w.name, { format, shape, stored: w.stored, firstRow: w.firstRow });
    if (this.#bindings.has(w.stored)) return;
    const source = await this.#bringIn(w);
    if (!w.quantizeTo) return void this.#bindings.set(w.stored, source);
    this.#bindings.set(w.stored, this.#quantize(source, w.format, w.quantizeTo, shape));
    // The dense copy, if there is one, was only needed until now.
    for (const b of source) if (!b.memory.mapped) this.#free(b.memory);
  }

  async #bringIn(w: PlannedWeight): Promise<readonly Binding[]> {
    const { source } = w;
    if (source.kind === "computed") return [this.#upload(await source.make())];
    if (source.kind === "mapped" && isAligned(source.parts, this.device.info.kind)) {
      return source.parts.map((r) => ({
        memory: this.#file(r.file),
        offset: r.offset,
        bytes: r.bytes,
      }));
    }
    const out: Binding[] = [];
    const parts = source.kind === "mapped" ? source.parts.map((r) => [r]) : source.parts;
    for (const ranges of parts) {
      const bytes = ranges.reduce((n, r) => n + r.bytes, 0);
      const memory = this.#alloc(bytes);
      await copyRanges(ranges, 0, (_, offset, piece) => memory.write(offset, piece));
      out.push({ memory, offset: 0, bytes });
    }
    return out;
  }

  /** Dense values to affine codes, by a tape of one record. */
  #quantize(
    source: readonly Binding[],
    from: Format,
    to: AffineFormat,
    shape: readonly number[],
  ): readonly Binding[] {
    const columns = shape[shape.length - 1];
    const rows = shape.reduce((a, b) => a * b, 1) / columns;
    const tape = new Tape();
    const x = tape.weight("x", from, [rows, columns]);
    const w = tape.weight("w", to, [rows, columns]);
    tape.emit(quantizeAffine, { x, w }, {});
    const planned = planTape(tape);
    const parts = PARTS.map((part): Binding => {
      const bytes = partBytes(to, shape, part);
      return { memory: this.#alloc(bytes), offset: 0, bytes };
    });
    using loaded = this.device.load(encodeTape(planned, launchForm(this.device.info.kind)), [
      ...source,
      ...parts,
    ], null);
    loaded.play();
    return parts;
  }

  #file(index: number): Memory {
    let memory = this.#files.get(index);
    if (!memory) {
      const file = this.files[index];
      memory = this.device.map(file.path, file.bytes);
      this.#files.set(index, memory);
    }
    return memory;
  }

  #alloc(bytes: number): Memory {
    const memory = this.device.alloc(bytes);
    this.#memories.push(memory);
    return memory;
  }

  #free(memory: Memory): void {
    this.#memories.splice(this.#memories.indexOf(memory), 1);
    memory[Symbol.dispose]();
  }

  #upload(values: Float32Array<ArrayBuffer>): Binding {
    const memory = this.#alloc(values.byteLength);
    memory.write(0, values);
    return { memory, offset: 0, bytes: values.byteLength };
  }

  [Symbol.dispose](): void {
    for (const m of [...this.#memories, ...this.#files.values()]) m[Symbol.dispose]();
    this.#memories.length = 0;
    this.#files.clear();
    this.#bindings.clear();
  }
}
