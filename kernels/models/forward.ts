/**
 * What the record functions of a model share: weight forms, plans, scratch naming, the residual stream, and
 * products with lists of weights, exact or with 8-bit activations, by row count. Owns no model.
 */
import type { DType, Format, Recorder, Tensor } from "../define.ts";
import { isAffine, parseAffine } from "../formats/affine.ts";
import { addRmsNorm } from "../ops/add_rms_norm/op.ts";
import { gemm } from "../ops/gemm/op.ts";
import { gemmAct8 } from "../ops/gemm_act8/op.ts";
import { gemv } from "../ops/gemv/op.ts";
import { gemvAdd } from "../ops/gemv_add/op.ts";
import { gemvAct8 } from "../ops/gemv_act8/op.ts";
import { normGemv } from "../ops/norm_gemv/op.ts";
import { quantAct8 } from "../ops/quant_act8/op.ts";
import { rmsNorm } from "../ops/rms_norm/op.ts";
import { swiglu } from "../ops/swiglu/op.ts";
import { STEP_WORDS } from "../step.ts";
import type { ModelConfig } from "./qwen35_config.ts";

/** Rows up to here share one weight stream and keep each row's bits; more go through the matrix ops. */
export const ROWS_MAX = 16;

/** Named choices that change arithmetic or records but not what is computed. */
export interface Plan {
  /** Activations are quantised to 8 bits per 32 before products with quantised weights. */
  readonly actInt8: boolean;
  /** Neighbouring records of a decode step are one where an op for both exists: fewer launches. */
  readonly fused: boolean;
}

/** How a canonical weight is stored; `firstRow` is the row offset inside each expert's block. */
export interface WeightForm {
  readonly format: Format;
  readonly shape: readonly number[];
  /** Names the memory: two weights may lie in one tensor (gate and up fused). */
  readonly stored: string;
  readonly firstRow: number;
}

export type KvType = Extract<DType, "f32" | "f16" | "bf16" | "q8">;

/** What the play does after the last layer. */
export type Output =
  /** Nothing: a prefill chunk before the last. */
  | "none"
  /** Logits of the last row, a sampled token, and the step block advanced. */
  | "sample"
  /** Logits of every row in state `logits`. */
  | "logits"
  /** Negative log-likelihood of the next token of history for every row, in state `nll`. */
  | "nll"
  /**
   * A speculative round: row 0 is the last token, the rows behind it are drafts of which those that serial
   * decode would have made are kept. Logits of every row, the step block advanced by the rows kept.
   */
  | "round";

export interface ForwardShape {
  readonly rows: number;
  /** Positions allocated in the caches. */
  readonly ctx: number;
  /** Upper bound of keys that any row sees: which attention form is recorded. */
  readonly keys: number;
  readonly kv: KvType;
  readonly output: Output;
  readonly plan: Plan;
  /** The MTP head sees the rows too, so that its cache holds what the trunk's hold. */
  readonly head?: true;
  /** Tokens that the head then drafts behind the position, for the next round. */
  readonly drafts?: number;
  /** Keeps the head's normed rows and their logits readable, in states `mtp.normed` and `mtp.logits`. */
  readonly tapHead?: true;
  /** Keeps the residual stream and the last normed rows readable, and stops after this many layers. */
  readonly tapLayers?: number;
  /** Keeps the experts that rows choose readable, u32 [rows, topK] in state `ids.<layer>`. */
  readonly tapRouting?: true;
  /** Rows use the experts that state `given.<layer>` holds; what they would have chosen is kept as above. */
  readonly givenRouting?: true;
}

/** What the record functions of one forward pass share. */
export class Forward {
  constructor(
    readonly tape: Recorder,
    readonly c: ModelConfig,
    readonly weights: ReadonlyMap<string, WeightForm>,
    readonly s: ForwardShape,
    /** Of the names of scratch and of the step block. */
    readonly prefix = "",
    readonly made = { tensors: 0 },
  ) {}

  /** On the same tape, `rows` rows that have a position of their own. */
  apart(prefix: string, rows: number): Forward {
    const { tapRouting: _, givenRouting: __, ...s } = this.s;
    return new Forward(
      this.tape,
      this.c,
      this.weights,
      { ...s, rows },
      prefix,
      this.made,
    );
  }

  weight(name: string): Tensor {
    const w = this.form(name);
    return this.tape.weight(w.stored, w.format, w.shape);
  }

  form(name: string): WeightForm {
    const w = this.weights.get(name);
    if (!w) throw new Error(`The model has no weight ${name}`);
    return w;
  }

  /** A fresh f32 scratch tensor. */
  scratch(name: string, shape: readonly number[], dtype: DType = "f32"): Tensor {
    return this.tape.scratch(`${this.prefix}${name}.${this.made.tensors++}`, dtype, shape);
  }

  get step(): Tensor {
    return this.tape.state(`${this.prefix}step`, "u32", [STEP_WORDS]);
  }

  get history(): Tensor {
    return this.tape.state("history", "u32", [this.s.ctx]);
  }

  /** Whether records are joined where an op for both exists: those ops share one weight stream. */
  get fused(): boolean {
    return this.s.plan.fused && this.s.rows <= ROWS_MAX;
  }

  /** Whether products of rows of `dim` values with weights of this format take 8-bit rows. */
  takesAct8(format: Format, dim: number): boolean {
    return this.s.plan.actInt8 && isAffine(format) && dim % 64 === 0;
  }
}

/** What rows are the norm of. */
export interface NormOf {
  readonly x: Tensor;
  readonly w: Tensor;
}

/**
 * Rows that feed products, with their 8-bit forms made at most once per code order. Rows that are the norm of
 * others get a record of their own when somebody asks for them; a product may take the norm on its way.
 */
export class Activations {
  readonly #codes = new Map<number, { codes: Tensor; scales: Tensor; sums: Tensor }>();
  readonly #place: () => Tensor;
  #x: Tensor | null;

  constructor(readonly f: Forward, rows: Tensor | (() => Tensor), readonly norm?: NormOf) {
    this.#place = rows instanceof Function ? rows : () => rows;
    this.#x = rows instanceof Function ? null : rows;
  }

  get rows(): number {
    return (this.#x ?? this.norm!.x).shape[0];
  }

  /** Whether the rows are in memory already. */
  get there(): boolean {
    return this.#x !== null;
  }

  get x(): Tensor {
    if (!this.#x) {
      this.#x = this.#place();
      this.f.tape.emit(rmsNorm, { ...this.norm!, y: this.#x }, { eps: this.f.c.normEps });
    }
    return this.#x;
  }

  /** Rows first .. first + n - 1 of rows of the model's width. */
  part(first: number, n: number): Activations {
    const { f, norm } = this;
    const of = (t: Tensor) => f.tape.view(t, first * f.c.hidden, [n, f.c.hidden]);
    if (this.#x) return new Activations(f, of(this.#x));
    return new Activations(f, () => of(this.#place()), { x: of(norm!.x), w: norm!.w });
  }

  /** The 8-bit form for weights of this format, or null where the plan or the shape rules it out. */
  act8(format: Format) {
    const { f, rows } = this, dim = (this.#x ?? this.norm!.x).shape[1];
    if (!isAffine(format) || !f.takesAct8(format, dim)) return null;
    const split = parseAffine(format).bits === 4 ? 1 : 0;
    let made = this.#codes.get(split);
    if (!made) {
      made = {
        codes: f.scratch("codes", [rows, dim], "i8"),
        scales: f.scratch("scales", [rows, dim / 32]),
        sums: f.scratch("sums", [rows, dim / 32]),
      };
      f.tape.emit(quantAct8, { x: this.x, ...made }, { split });
      this.#codes.set(split, made);
    }
    return made;
  }
}

/** The residual stream: rows to which every block adds, and of which it reads the norm. */
export class Stream {
  #delta: Tensor | null = null;

  /** `place` gives the rows that hold a norm which is read from memory. */
  constructor(readonly f: Forward, readonly x: Tensor, readonly place: () => Tensor) {}

  /** The norm of the rows, to be read before something is added. */
  norm(weight: string, place = this.place): Activations {
    const { f, x } = this, w = f.weight(weight), eps = f.c.normEps, delta = this.#delta;
    if (f.fused && !delta) return new Activations(f, place, { x, w });
    const y = place();
    if (delta) f.tape.emit(addRmsNorm, { x, delta, w, y }, { eps });
    else f.tape.emit(rmsNorm, { x, w, y }, { eps });
    this.#delta = null;
    return new Activations(f, y, { x, w });
  }

  /** x += delta, together with the next norm. */
  add(delta: Tensor): void {
    this.#delta = delta;
  }

  /** x += a W^T. */
  addProduct(a: Activations, name: string): void {
    const { f, x } = this;
    const exact = !f.takesAct8(f.form(name).format, a.x.shape[1]);
    if (f.fused && exact) f.tape.emit(gemvAdd, { x: a.x, w: f.weight(name), y: x }, {});
    else this.add(project(a, [name]));
  }
}

/** y[:, concatenation of names] = x W^T; consecutive weights of one format share a record. */
export function project(a: Activations, names: readonly string[], exact = false): Tensor {
  const f = a.f;
  const forms = names.map((n) => f.form(n));
  const width = forms.reduce((n, w) => n + w.shape[0], 0);
  const y = f.scratch(names[0].split(".").pop()!, [a.rows, width]);
  projectInto(a, names, y, exact);
  return y;
}

/** As project, into rows of a given tensor. */
export function projectInto(a: Activations, names: readonly string[], y: Tensor, exact = false) {
  const { tape, c: { normEps: eps } } = a.f, f = a.f, many = a.rows > ROWS_MAX;
  let yCol = 0;
  for (let i = 0; i < names.length;) {
    const format = f.form(names[i]).format;
    let n = 1;
    while (n < 4 && i + n < names.length && f.form(names[i + n]).format === format) n++;
    const run = names.slice(i, i + n).map((name) => f.weight(name));
    const list = { w0: run[0], w1: run[1], w2: run[2], w3: run[3], y };
    const act8 = exact ? null : a.act8(format);
    if (act8) tape.emit(many ? gemmAct8 : gemvAct8, { ...act8, ...list }, { yCol });
    else if (many) tape.emit(gemm, { x: a.x, ...list }, { yCol });
    else if (a.there) tape.emit(gemv, { x: a.x, ...list }, { yCol });
    else tape.emit(normGemv, { x: a.norm!.x, wNorm: a.norm!.w, ...list }, { yCol, eps });
    yCol += run.reduce((sum, w) => sum + w.shape[0], 0);
    i += n;
  }
}

/** The weight that gives logits. */
export function outputHead(c: ModelConfig): string {
  return c.tied ? "embed" : "lmHead";
}

/** silu(gate x) * up x. */
export function recordSwiglu(a: Activations, gate: string, up: string, ffn: number): Activations {
  const { f } = a, h = f.scratch("h", [a.rows, ffn]);
  f.tape.emit(swiglu, { gu: project(a, [gate, up]), h }, {});
  return new Activations(f, h);
}
