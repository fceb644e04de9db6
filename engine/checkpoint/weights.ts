/**
 * From a checkpoint to the weights that the kernels read: for each canonical weight where its bytes
 * are, in which format, and what has to be done to them. Reads no tensor data until asked to.
 */
import {
  type AffineFormat,
  type DenseFormat,
  type Format,
  isAffine,
} from "../../kernels/formats/affine.ts";
import type { ModelConfig } from "../../kernels/models/qwen35_config.ts";
import {
  weightList,
  type WeightRole,
  type WeightSpec,
} from "../../kernels/models/qwen35_weights.ts";
import { firstFive, UserError } from "../errors.ts";
import { counted } from "../wording.ts";
import { type Difference, differenceError } from "./differences.ts";
import type { Checkpoint } from "./folder.ts";
import { type Inventory, type Module, takeInventory, type TensorAt } from "./inventory.ts";
import { recognise, storedName } from "./names.ts";
import { isShiftedNorm, type NormStorage, normStorage } from "./norms.ts";
import { parseQuantization, type QuantizationRules } from "./quantization.ts";
import { denseStorage, matrixStorage, type Misfit, type Stored } from "./storage.ts";
import { type Range, readRange, widen } from "./tensor_data.ts";

export type Source =
  /** The bytes as they lie in the file: one part when dense; codes, scales, biases when affine. */
  | { readonly kind: "mapped"; readonly parts: readonly Range[] }
  /** Small f32 values that differ from the stored ones, which lie in `from`. */
  | {
    readonly kind: "computed";
    readonly from: Range;
    readonly stored: DenseFormat;
    readonly make: () => Promise<Float32Array<ArrayBuffer>>;
  }
  /** Parts as in `mapped`, each of ranges to be copied one after another. */
  | { readonly kind: "gathered"; readonly parts: readonly (readonly Range[])[] };

export interface PlannedWeight {
  readonly name: string;
  readonly role: WeightRole;
  readonly shape: readonly number[];
  /** Format of what `source` gives. */
  readonly format: Format;
  /** Set where the loader is to quantise what `source` gives; kernels then see this format. */
  readonly quantizeTo?: AffineFormat;
  /** Names the memory: two weights that lie in one tensor share it, and their `source`. */
  readonly stored: string;
  /** Row of this weight inside each expert's block of the stored tensor. */
  readonly firstRow: number;
  /** Rows of an expert's block, all rows where there are no experts. */
  readonly rowsPerExpert: number;
  readonly source: Source;
}

export interface WeightPlan {
  readonly weights: readonly PlannedWeight[];
  readonly norms: NormStorage;
  /** What was left out or decided, one line each, for people. */
  readonly notes: readonly string[];
  /** What is not as it was asked for or said, one line each. */
  readonly warnings: readonly string[];
  /** Tensors of an MTP head that were left out. */
  readonly draftTensors: number;
}

export interface PlanOptions {
  /** Dense matrices become affine codes of so many bits, in groups of 64. */
  readonly quantize?: 4 | 8;
  /** The MTP head's weights too; a checkpoint without one is refused unless it is optional. */
  readonly draftHead?: boolean | "optional";
}

/** Fits the tensors of a checkpoint to its config. Throws UserError with all differences at once. */
export function planWeights(checkpoint: Checkpoint, options: PlanOptions = {}): WeightPlan {
  const draftHead = wantsHead(checkpoint, options.draftHead);
  const inventory = takeInventory(checkpoint.files, draftHead);
  const norms = normStorage(checkpoint.path, inventory, checkpoint.files);
  const planner = new Planner(
    checkpoint,
    inventory,
    parseQuantization(checkpoint.json, `${checkpoint.folder}/config.json`),
    !(norms instanceof UserError) && norms.centred,
    options.quantize,
  );
  const weights = weightList(checkpoint.config, draftHead).map((w) => planner.plan(w));
  const found = planner.finish();
  if (found.length > 0) throw differenceError(checkpoint.path, checkpoint.config, found);
  if (norms instanceof UserError) throw norms;
  const planned = weights as PlannedWeight[];
  return {
    weights: planned,
    norms,
    warnings: [
      ...planner.otherBits(),
      ...(options.quantize ? leftAsTheyAre(checkpoint.path, planned, options.quantize) : []),
    ],
    notes: notes(checkpoint.config, inventory, norms),
    draftTensors: inventory.skipped["draft head"].length,
  };
}

/** Whether the head is to be planned too. Throws UserError where there is none. */
function wantsHead(
  { path, config, files }: Checkpoint,
  asked: PlanOptions["draftHead"],
): boolean {
  if (!asked) return false;
  const layers = config.mtpLayers;
  const heads = files.some((f) =>
    [...f.tensors.keys()].some((name) => recognise(name).kind === "draft head")
  );
  if (layers === 1 && heads) return true;
  if (asked === "optional") return false;
  const what = layers > 1
    ? `an MTP draft head of ${layers} layers`
    : `no MTP draft head${layers === 1 ? ", though config.json names one" : ""}`;
  throw new UserError(
    `Checkpoint ${path} has ${what}; expected one of one layer (mtp.*). Use --spec ngram or off.`,
  );
}

/** The format in which kernels see a planned weight. */
export function playedFormat(w: PlannedWeight): Format {
  return w.quantizeTo ?? w.format;
}

/** Matrices that are codes already are not coded again. Throws UserError when that leaves none to do. */
function leftAsTheyAre(path: string, planned: readonly PlannedWeight[], bits: 4 | 8): string[] {
  const matrices = [...new Map(planned.map((w) => [w.stored, w])).values()]
    .filter((w) => w.role !== "vector" && w.role !== "conv");
  const codes = matrices.filter((w) => isAffine(w.format));
  const formats = [...new Set(codes.map((w) => w.format))].join(", ");
  if (!matrices.some((w) => w.quantizeTo)) {
    const why = codes.length > 0
      ? `${counted(codes.length, "matrix is", "matrices are")} ${formats} already`
      : "none has rows of whole groups of 64";
    throw new UserError(
      `Checkpoint ${path} holds nothing that --quantize ${bits} could quantise: ${why}; ` +
        `expected a bf16, f16 or f32 checkpoint. Leave --quantize out.`,
    );
  }
  if (codes.length === 0) return [];
  const stay = `${counted(codes.length, "matrix stays", "matrices stay")} ${formats}`;
  return [`--quantize ${bits} is for dense matrices: ${stay} as in the checkpoint`];
}

class Planner {
  readonly differences: Difference[] = [];
  readonly #used = new Set<string>();
  readonly #shared = new Map<string, Pick<PlannedWeight, "format" | "source"> | undefined>();
  readonly #bitsTold: string[] = [];
  #names: readonly string[] | undefined;

  constructor(
    readonly checkpoint: Checkpoint,
    readonly inventory: Inventory,
    readonly rules: QuantizationRules,
    readonly normsCentred: boolean,
    readonly bits: 4 | 8 | undefined,
  ) {}

  /** Undefined where a difference was noted. */
  plan(w: WeightSpec): PlannedWeight | undefined {
    const rows = w.shape[w.shape.length - 2] ?? w.shape[0];
    const whole = { ...w, stored: w.name, firstRow: 0, rowsPerExpert: rows };
    if (w.role === "vector" || w.role === "conv") return this.#vector(w, whole);
    const half = /^(.*\.moe\.experts)(Gate|Up)$/.exec(w.name);
    const fused = `${half?.[1]}GateUp`;
    if (half && !this.inventory.modules.has(w.name) && this.inventory.modules.has(fused)) {
      const shape = [w.shape[0], 2 * rows, w.shape[2]];
      const data = this.#matrix(fused, shape);
      const firstRow = half[2] === "Up" ? rows : 0;
      const at = { ...w, stored: fused, firstRow, rowsPerExpert: 2 * rows };
      return data && { ...at, ...data, ...this.#quantizeTo(w, data.format) };
    }
    const data = this.#matrix(w.name, w.shape);
    return data && { ...whole, ...data, ...this.#quantizeTo(w, data.format) };
  }

  /** All differences, those of tensors that nothing asked for included. */
  finish(): readonly Difference[] {
    const { modules, unknown, repeated } = this.inventory;
    for (const [name, list] of modules) {
      if (this.#used.has(name) || (name === "lmHead" && this.checkpoint.config.tied)) continue;
      for (const m of list) for (const t of Object.values(m.parts)) this.#unexpected(name, t);
    }
    for (const t of unknown) this.#unexpected(t.name, t);
    for (const t of repeated) this.#unexpected(t.name, t, ", a second one for its place");
    return this.differences;
  }

  /** The bits of config.json are not needed: with the width known, shapes leave one reading. */
  otherBits(): string[] {
    const told = this.#bitsTold;
    if (told.length === 0) return [];
    const hold = counted(told.length, "matrix holds", "matrices hold");
    return [
      `${hold} codes of other bits than config.json says (${firstFive(told, "; ")}): ` +
      `the tensors are believed, as their shapes fit nothing else`,
    ];
  }

  #compareBits(name: string, format: Format): void {
    const said = this.rules(name)?.bits, bits = Number(/^q(\d+)g/.exec(format)?.[1] ?? NaN);
    if (said !== undefined && isAffine(format) && bits !== said) {
      this.#bitsTold.push(`${name} ${bits}, not ${said}`);
    }
  }

  #unexpected(name: string, t: TensorAt, why = ""): void {
    const text = `${t.name} ${t.dtype} [${t.shape.join(", ")}]${why}`;
    this.differences.push({ kind: "unexpected", name, text });
  }

  #missing(name: string): undefined {
    this.#names ??= this.checkpoint.files.flatMap((f) => [...f.tensors.keys()]);
    this.differences.push({ kind: "missing", name, text: storedName(name, this.#names) });
  }

  #note(name: string, { kind, text }: Misfit): undefined {
    this.differences.push({ kind, name, text });
  }

  #find(name: string): readonly Module[] | undefined {
    this.#used.add(name);
    return this.inventory.modules.get(name);
  }

  #vector(w: WeightSpec, at: Omit<PlannedWeight, "format" | "source">): PlannedWeight | undefined {
    const found = this.#find(w.name);
    if (!found) return this.#missing(w.name);
    const [rows, taps] = w.shape;
    const shapes = w.role === "conv" ? [[rows, 1, taps], [rows, taps, 1], [rows, taps]] : [w.shape];
    const stored = denseStorage(found[0], shapes);
    if ("kind" in stored) return this.#note(w.name, stored);
    const range = this.#range(stored.parts[0]), format = stored.format as DenseFormat;
    const make = async () => {
      const values = widen(format, await readRange(range));
      if (w.name.endsWith(".negA")) return values.map((v) => -Math.exp(v));
      return isShiftedNorm(w.name) && this.normsCentred ? values.map((v) => v + 1) : values;
    };
    return {
      ...at,
      format: "f32",
      source: { kind: "computed", from: range, stored: format, make },
    };
  }

  /** One matrix of the file, or one tensor of all experts; found once for all weights that share it. */
  #matrix(name: string, shape: readonly number[]) {
    if (!this.#shared.has(name)) this.#shared.set(name, this.#findMatrix(name, shape));
    return this.#shared.get(name);
  }

  #findMatrix(
    name: string,
    shape: readonly number[],
  ): Pick<PlannedWeight, "format" | "source"> | undefined {
    const found = this.#find(name);
    if (!found) return this.#missing(name);
    const rule = this.rules(name);
    if (found[0].expert !== undefined) return this.#experts(name, shape, found);
    const stored = matrixStorage(found[0], shape, rule);
    if ("kind" in stored) return this.#note(name, stored);
    this.#compareBits(name, stored.format);
    const ranges = stored.parts.map((p) => this.#range(p));
    const source: Source = ranges.every((r, i) => r.offset % unitBytes(stored.format, i) === 0)
      ? { kind: "mapped", parts: ranges }
      : { kind: "gathered", parts: ranges.map((r) => [r]) };
    return { format: stored.format, source };
  }

  /** A tensor for each expert: copied one after another into what a single tensor would hold. */
  #experts(name: string, shape: readonly number[], found: readonly Module[]) {
    const [count, ...each] = shape;
    const byExpert = new Map(found.map((m) => [m.expert, m]));
    const stored: Stored[] = [];
    const before = this.differences.length;
    for (let e = 0; e < count; e++) {
      const module = byExpert.get(e);
      const one: Stored | Misfit = module
        ? matrixStorage(module, each, this.rules(name))
        : { kind: "missing", text: found[0].path.replace(/\.\d+\.(\w+)$/, `.${e}.$1.weight`) };
      if ("kind" in one) this.#note(name, one);
      else stored.push(one);
    }
    for (const m of found.filter((m) => m.expert! >= count)) {
      for (const t of Object.values(m.parts)) this.#unexpected(name, t);
    }
    const odd = stored.findIndex((s) => s.format !== stored[0].format);
    if (odd > 0) {
      const text = `${stored[odd].parts[0].name} is ${stored[odd].format}, other experts are ` +
        stored[0].format;
      this.#note(name, { kind: "quantised otherwise", text });
    }
    if (this.differences.length > before) return undefined;
    this.#compareBits(name, stored[0].format);
    const parts = stored[0].parts.map((_, i) => stored.map((s) => this.#range(s.parts[i])));
    return { format: stored[0].format, source: { kind: "gathered", parts } as const };
  }

  #range(t: TensorAt): Range {
    const { path } = this.checkpoint.files[t.file];
    return { file: t.file, path, offset: t.offset, bytes: t.bytes };
  }

  /** MLX's own choice: all matrices of whole groups, the small gates of MoE layers at 8 bits. */
  #quantizeTo(w: WeightSpec, format: Format): Pick<PlannedWeight, "quantizeTo"> {
    const width = w.shape[w.shape.length - 1];
    if (!this.bits || isAffine(format) || width % 64) return {};
    const bits = /\.moe\.(router|sharedGate)$/.test(w.name) ? 8 : this.bits;
    return { quantizeTo: `q${bits}g64_bf16` };
  }
}

/** Bytes to whose multiples kernels must find part `i` aligned. */
function unitBytes(format: Format, i: number): number {
  return i === 0 && (isAffine(format) || format === "f32") ? 4 : 2;
}

function notes(config: ModelConfig, inventory: Inventory, norms: NormStorage): string[] {
  const { vision, "draft head": draft } = inventory.skipped;
  const lines = [
    `norms stored ${norms.centred ? "centred, 1 added" : "plain"} (${norms.evidence})`,
  ];
  const ignored = (n: number, of: string) => `ignored ${counted(n, "tensor")} of the ${of}`;
  if (vision.length) lines.push(ignored(vision.length, "vision tower"));
  if (draft.length) lines.push(ignored(draft.length, "MTP draft head"));
  if (config.tied && inventory.modules.has("lmHead")) {
    lines.push("ignored lm_head: config.json ties the output head to the embedding");
  }
  return lines;
}
