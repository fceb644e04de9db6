/**
 * The memory of one session and the tapes loaded over it: caches, recurrent state, step block, scratch
 * arena. Owns allocation, binding and reuse; decides nothing about what to play.
 */
import type { Binding, Device, LoadedTape, Memory } from "../ffi/abi/handle.ts";
import { encodeTape, launchForm } from "../ffi/tape/encode.ts";
import { type PlannedTape, planTape } from "../ffi/tape/plan.ts";
import { Tape } from "../ffi/tape/tape.ts";
import type { LoadedModel } from "./model.ts";
import type { ForwardShape } from "../kernels/models/forward.ts";
import { recordForward } from "../kernels/models/qwen35.ts";
import type { RunMark } from "./step_block.ts";

/** A tape in native memory with what it was made from. */
export interface ReadyTape {
  readonly shape: ForwardShape;
  readonly planned: PlannedTape;
  readonly encoded: Uint8Array<ArrayBuffer>;
  readonly loaded: LoadedTape;
}

/** Copies of the recurrent state, freed with the last handle that shares them. */
interface SharedCopies {
  readonly memories: ReadonlyMap<string, Memory>;
  handles: number;
}

/**
 * A position with the recurrent state that belongs to it; caches only need their length. Never changes, so
 * it may be restored again and again, and handles may share it.
 */
export class Snapshot implements Disposable {
  #shared: SharedCopies | null;

  constructor(
    readonly owner: SessionState,
    readonly pos: number,
    readonly run: RunMark,
    shared: SharedCopies,
  ) {
    this.#shared = shared;
    shared.handles++;
  }

  get copies(): ReadonlyMap<string, Memory> {
    if (!this.#shared) throw new Error("This snapshot has been disposed");
    return this.#shared.memories;
  }

  get bytes(): number {
    return [...this.copies.values()].reduce((n, m) => n + m.bytes, 0);
  }

  /** Another handle on the same bytes, which stay until both are disposed. */
  alias(): Snapshot {
    if (!this.#shared) throw new Error("This snapshot has been disposed");
    return new Snapshot(this.owner, this.pos, this.run, this.#shared);
  }

  /** A snapshot with bytes of its own, which outlives this one and shares nothing with it. */
  copy(): Snapshot {
    return new Snapshot(this.owner, this.pos, this.run, this.owner.copyOf(this.copies));
  }

  [Symbol.dispose](): void {
    const shared = this.#shared;
    this.#shared = null;
    if (!shared || --shared.handles > 0) return;
    for (const m of shared.memories.values()) m[Symbol.dispose]();
  }
}

/** Loaded tapes kept at a time; odd prefill lengths push out the oldest. */
const TAPES_MAX = 32;

/** State whose size differs from tape to tape: results that the host reads after a play. */
const RESULTS = /^(logits|nll|x|normed|mtp\.(logits|normed)|(ids|given)\.\d+)$/;

/** State that each token changes as a whole, as opposed to caches that only grow. */
export function isRecurrent(name: string): boolean {
  return name.startsWith("gdn.") || name.startsWith("conv.");
}

/** As much of a model as its tapes need. */
export type ForwardModel = Pick<LoadedModel, "config" | "forms" | "plan">;

/** Records, plans and names one forward pass; needs no device. */
export function planForward(
  model: Omit<ForwardModel, "plan">,
  shape: ForwardShape,
): PlannedTape {
  const tape = new Tape();
  recordForward(tape, model.config, model.forms, shape);
  return planTape(tape);
}

export class SessionState implements Disposable {
  readonly #device: Device;
  readonly #states = new Map<string, Memory>();
  readonly #tapes = new Map<string, ReadyTape>();
  #arena: Memory | null = null;

  constructor(readonly model: LoadedModel) {
    this.#device = model.device;
  }

  /** The tape for a shape: recorded and loaded at first use. */
  tape(shape: ForwardShape): ReadyTape {
    const key = JSON.stringify(shape);
    const known = this.#tapes.get(key);
    if (known) {
      this.#tapes.delete(key);
      this.#tapes.set(key, known);
      return known;
    }
    const planned = planForward(this.model, shape);
    this.#grow(planned.scratchBytes);
    const encoded = encodeTape(planned, launchForm(this.#device.info.kind));
    const step = planned.slots.findIndex((s) => s.name === "step");
    const bindings = planned.slots.map((_, i) => this.#bind(planned, i));
    const ready = { shape, planned, encoded, loaded: this.#device.load(encoded, bindings, step) };
    this.#tapes.set(key, ready);
    if (this.#tapes.size > TAPES_MAX) {
      const [oldest, { loaded }] = this.#tapes.entries().next().value!;
      loaded[Symbol.dispose]();
      this.#tapes.delete(oldest);
    }
    return ready;
  }

  /** Memory of a state tensor. Results are told apart by their size. */
  memory(name: string, bytes: number): Memory {
    const key = RESULTS.test(name) ? `${name}:${bytes}` : name;
    let memory = this.#states.get(key);
    if (!memory) {
      memory = this.#device.alloc(bytes);
      this.#states.set(key, memory);
    }
    return memory;
  }

  /** State tensors allocated so far, by name. */
  get states(): ReadonlyMap<string, Memory> {
    return this.#states;
  }

  /** Copies the recurrent state of every layer. */
  snapshot(pos: number, run: RunMark): Snapshot {
    const recurrent = [...this.#states].filter(([name]) => isRecurrent(name));
    return new Snapshot(this, pos, run, this.copyOf(recurrent));
  }

  /** Memory of the same bytes, by name; nothing is left allocated where one of them fails. */
  copyOf(memories: Iterable<readonly [string, Memory]>): SharedCopies {
    using taking = new DisposableStack();
    const copies = new Map<string, Memory>();
    for (const [name, memory] of memories) {
      const copy = taking.use(this.#device.alloc(memory.bytes));
      copy.copyFrom(0, memory, 0, memory.bytes);
      copies.set(name, copy);
    }
    taking.move();
    return { memories: copies, handles: 0 };
  }

  restore(snapshot: Snapshot): void {
    if (snapshot.owner !== this) throw new Error("This snapshot belongs to another session");
    for (const [name, copy] of snapshot.copies) {
      this.#states.get(name)!.copyFrom(0, copy, 0, copy.bytes);
    }
  }

  /** Bytes allocated for caches, state, results and scratch. */
  get bytes(): number {
    let sum = this.#arena?.bytes ?? 0;
    for (const m of this.#states.values()) sum += m.bytes;
    return sum;
  }

  /** Frees the results of all plays; tapes are recorded and loaded again when they are next used. */
  releaseResults(): void {
    this.#dropTapes();
    for (const [key, memory] of this.#states) {
      if (!RESULTS.test(key.split(":")[0])) continue;
      memory[Symbol.dispose]();
      this.#states.delete(key);
    }
  }

  #bind(planned: PlannedTape, i: number): Binding {
    const s = planned.slots[i];
    if (s.kind === "scratch") {
      return { memory: this.#arena!, offset: planned.offsets[i], bytes: s.bytes };
    }
    if (s.kind === "weight") return this.model.binding(s.name, s.part);
    const base = planned.slots[s.base];
    return {
      memory: this.memory(s.name.split("+")[0], base.bytes),
      offset: s.offset,
      bytes: s.bytes,
    };
  }

  /** A larger arena drops all tapes: they are bound to the old one. */
  #grow(bytes: number): void {
    if (this.#arena && this.#arena.bytes >= bytes) return;
    this.#dropTapes();
    this.#arena?.[Symbol.dispose]();
    this.#arena = this.#device.alloc(Math.max(bytes, 1));
  }

  #dropTapes(): void {
    for (const { loaded } of this.#tapes.values()) loaded[Symbol.dispose]();
    this.#tapes.clear();
  }

  [Symbol.dispose](): void {
    this.#dropTapes();
    this.#arena?.[Symbol.dispose]();
    for (const m of this.#states.values()) m[Symbol.dispose]();
    this.#states.clear();
  }
}
