/**
 * One range of device memory that holds all tensors of a record, each at an odd but legal offset and with
 * canary bytes around it; after a play it gives back what was written and says what must not have been.
 */
import { Buffer } from "node:buffer";
import type { Binding, Device, LoadedTape, Memory } from "../../ffi/abi/handle.ts";
import type { DType, Format } from "../../kernels/define.ts";
import { SLOT_ALIGN, WEIGHT_ALIGN } from "../../ffi/abi/layout.ts";
import type { LaunchForm } from "../../ffi/tape/encode.ts";
import type { Parts } from "./tensor_data.ts";

const GUARD = 64, CANARY = 0xc5;

/** Where the loader lets a tensor begin: weights anywhere, others at a multiple of their element. */
const ELEMENT_ALIGN: Record<string, number> = { f32: 4, u32: 4, f16: 2, bf16: 2, q8: 2, i8: 1 };
const WEIGHT_SKEW = [2, 1, 3];

export interface Placed {
  readonly name: string;
  readonly begin: number;
  readonly bytes: number;
  readonly written: boolean;
}

export class Arena {
  readonly places: Placed[] = [];
  #end = 0;
  constructor(readonly form: LaunchForm = "tasks") {}

  /** Reserves room for one part of a tensor; parts come in slot order. */
  place(
    name: string,
    dtype: DType | Format,
    part: number,
    bytes: number,
    isWeight: boolean,
    written: boolean,
  ): void {
    const anywhere = isWeight && !written;
    const skew = this.form === "threadgroups"
      ? anywhere ? WEIGHT_ALIGN : SLOT_ALIGN
      : anywhere
      ? WEIGHT_SKEW[part]
      : ELEMENT_ALIGN[dtype] ?? 2;
    const begin = Math.ceil((this.#end + GUARD) / 64) * 64 + skew;
    this.places.push({ name, begin, bytes, written });
    this.#end = begin + bytes;
  }

  get bytes(): number {
    return this.#end + GUARD;
  }

  bindings(memory: Memory, offset = 0): Binding[] {
    return this.places.map((p) => ({ memory, offset: offset + p.begin, bytes: p.bytes }));
  }

  /** The whole arena with the given contents of each place. */
  image(contents: Parts): Buffer {
    const image = Buffer.alloc(this.bytes, CANARY);
    this.places.forEach((p, i) => image.set(contents[i], p.begin));
    return image;
  }

  /** The bytes of each place. */
  contents(image: Buffer): Uint8Array<ArrayBuffer>[] {
    return this.places.map((p) =>
      Uint8Array.from(image.subarray(p.begin, p.begin + p.bytes)) as Uint8Array<ArrayBuffer>
    );
  }

  /** Forgets what lies in these places. */
  blank(image: Buffer, names: readonly string[]): void {
    for (const p of this.places) {
      if (names.includes(p.name)) image.fill(0, p.begin, p.begin + p.bytes);
    }
  }

  /** Null, or the first byte outside the written places that a play changed. */
  strayWrite(before: Buffer, after: Buffer): string | null {
    let from = 0;
    for (const p of [...this.places.filter((p) => p.written), { begin: this.bytes, bytes: 0 }]) {
      if (before.compare(after, from, p.begin, from, p.begin) !== 0) {
        for (let i = from; i < p.begin; i++) {
          if (before[i] !== after[i]) return this.#describe(i);
        }
      }
      from = p.begin + p.bytes;
    }
    return null;
  }

  #describe(at: number): string {
    for (const p of this.places) {
      if (at >= p.begin && at < p.begin + p.bytes) {
        return `input ${p.name} was changed at byte ${at - p.begin}`;
      }
      if (at < p.begin) return `the canary ${p.begin - at} bytes before ${p.name} was overwritten`;
    }
    const last = this.places[this.places.length - 1];
    return `the canary ${at - last.begin - last.bytes} bytes behind ${last.name} was overwritten`;
  }
}

/** A device with memory that is kept from case to case and grows. */
export class Player {
  #memory: Memory | null = null;
  constructor(readonly device: Device) {}

  get name(): string {
    return `${this.device.info.isa} x${this.device.info.threads}`;
  }

  memory(bytes: number): Memory {
    if (!this.#memory || this.#memory.bytes < bytes) {
      this.#memory?.[Symbol.dispose]();
      this.#memory = this.device.alloc(Math.max(bytes, 1 << 20));
    }
    return this.#memory;
  }

  /** Loads the tape over the arena; plays it once for each image and returns the images behind. */
  play(tape: Uint8Array<ArrayBuffer>, arena: Arena, images: readonly Buffer[]): Buffer[] {
    const memory = this.memory(arena.bytes);
    using loaded: LoadedTape = this.device.load(tape, arena.bindings(memory), null);
    return images.map((image) => {
      memory.write(0, image as Uint8Array<ArrayBuffer>);
      loaded.play();
      const after = Buffer.alloc(arena.bytes);
      memory.read(0, after as Uint8Array<ArrayBuffer>);
      return after;
    });
  }

  [Symbol.dispose](): void {
    this.#memory?.[Symbol.dispose]();
    this.device[Symbol.dispose]();
  }
}
