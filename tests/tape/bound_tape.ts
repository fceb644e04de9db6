/** A planned tape with memory of its own on a device: an arena for scratch, one memory for each other tensor. */
import type { Binding, Device, LoadedTape, Memory } from "../../ffi/abi/handle.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import type { PlannedTape } from "../../ffi/tape/plan.ts";

export class BoundTape {
  readonly tape: LoadedTape;
  readonly #memories = new Map<number, Memory>();
  readonly #arena: Memory;

  constructor(readonly device: Device, readonly planned: PlannedTape, stepName?: string) {
    this.#arena = device.alloc(Math.max(planned.scratchBytes, 1));
    const step = planned.slots.findIndex((s) => s.name === stepName);
    this.tape = device.load(encodeTape(planned), this.#bindings(), step < 0 ? null : step);
  }

  #bindings(): Binding[] {
    return this.planned.slots.map((s, i) => {
      if (s.kind === "scratch") {
        return { memory: this.#arena, offset: this.planned.offsets[i], bytes: s.bytes };
      }
      return { memory: this.#memoryOf(s.base), offset: s.offset, bytes: s.bytes };
    });
  }

  #memoryOf(slot: number): Memory {
    let memory = this.#memories.get(slot);
    if (!memory) {
      memory = this.device.alloc(this.planned.slots[slot].bytes);
      this.#memories.set(slot, memory);
    }
    return memory;
  }

  /** Slots that are whole tensors of the host's memory: states and weights. */
  get owned(): number[] {
    return [...this.#memories.keys()];
  }

  memory(name: string): Memory {
    return this.#memories.get(this.planned.slots.findIndex((s) => s.name === name))!;
  }

  write(slot: number, bytes: ArrayBufferView<ArrayBuffer>): void {
    this.#memories.get(slot)!.write(0, bytes);
  }

  read(slot: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.planned.slots[slot].bytes);
    this.#memories.get(slot)!.read(0, bytes);
    return bytes;
  }

  [Symbol.dispose](): void {
    this.tape[Symbol.dispose]();
    for (const m of this.#memories.values()) m[Symbol.dispose]();
    this.#arena[Symbol.dispose]();
  }
}
