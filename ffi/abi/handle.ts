/**
 * Devices, memory and loaded tapes as disposable objects: the only callers of the native symbols. A handle
 * is refused after dispose. Knows no tape format, model or file.
 */
import { check, errorBlock, NativeError } from "./error.ts";
import {
  BINDING_BYTES,
  DEVICE_INFO_BYTES,
  DEVICE_KINDS,
  type DeviceKind,
  STATUS,
} from "./layout.ts";
import { MemoryUse } from "./memory_use.ts";
import { type Library, openLibrary } from "./open.ts";

export interface DeviceInfo {
  readonly kind: DeviceKind;
  readonly index: number;
  readonly name: string;
  /** Instruction set of the kernels in use; empty where that means nothing. */
  readonly isa: string;
  readonly threads: number;
  readonly memoryBytes: number;
  readonly memoryFreeBytes: number;
}

/** One slot of a tape bound to memory; null leaves it unbound. */
export type Binding = { readonly memory: Memory; readonly offset: number; readonly bytes: number };

abstract class Handle {
  #id: number;
  constructor(id: number, readonly what: string) {
    this.#id = id;
  }
  get id(): number {
    if (!this.#id) throw new Error(`This ${this.what} has been disposed`);
    return this.#id;
  }
  get disposed(): boolean {
    return this.#id === 0;
  }
  protected abstract release(id: number): void;
  [Symbol.dispose](): void {
    if (!this.#id) return;
    const id = this.#id;
    this.#id = 0;
    this.release(id);
  }
}

/** A device of the native library. Disposing it leaves its memories and tapes valid. */
export class Device extends Handle {
  readonly info: DeviceInfo;
  readonly use = new MemoryUse();
  readonly #error = errorBlock();

  private constructor(readonly library: Library, id: number) {
    super(id, "device");
    this.info = readInfo(library, id);
  }

  /** Opens a device. threads 0: as many as this process may use. Throws NativeError. */
  static open(kind: DeviceKind, index = 0, threads = 0, library = openLibrary()): Device {
    const error = errorBlock(), out = new Uint32Array(1);
    check(
      library.symbols.lw_device_open(DEVICE_KINDS.indexOf(kind), index, threads, out, error),
      error,
    );
    return new Device(library, out[0]);
  }

  /** How many devices of a kind there are; 0 where the library lacks the player. */
  static count(kind: DeviceKind, library = openLibrary()): number {
    const error = errorBlock(), out = new Uint32Array(1);
    check(library.symbols.lw_device_count(DEVICE_KINDS.indexOf(kind), out, error), error);
    return out[0];
  }

  /** Kernel names by id; an empty string where this device lacks the kernel. */
  kernels(): string[] {
    const needed = new BigUint64Array(1);
    const call = (buffer: Uint8Array<ArrayBuffer>) =>
      check(
        this.library.symbols.lw_kernel_list(
          this.id,
          buffer,
          BigInt(buffer.length),
          needed,
          this.#error,
        ),
        this.#error,
      );
    call(new Uint8Array(0));
    const buffer = new Uint8Array(Number(needed[0]));
    call(buffer);
    return new TextDecoder().decode(buffer.subarray(0, -1)).split("\n").slice(0, -1);
  }

  /** Zero-filled memory. */
  alloc(bytes: number): Memory {
    const out = new Uint32Array(1);
    check(
      this.library.symbols.lw_memory_alloc(this.id, BigInt(bytes), out, this.#error),
      this.#error,
    );
    return new Memory(this.library, out[0], bytes, false, this.use);
  }

  /** Maps a file read-only; it must be `bytes` long. */
  map(path: string, bytes: number): Memory {
    const name = new TextEncoder().encode(path), out = new Uint32Array(1);
    check(
      this.library.symbols.lw_weights_map(
        this.id,
        name,
        name.length,
        BigInt(bytes),
        out,
        this.#error,
      ),
      this.#error,
    );
    return new Memory(this.library, out[0], bytes, true);
  }

  /** Loads an encoded tape; everything is checked here. stepSlot: null when the tape has none. */
  load(
    tape: Uint8Array<ArrayBuffer>,
    bindings: readonly (Binding | null)[],
    stepSlot: number | null,
  ): LoadedTape {
    const table = new Uint8Array(bindings.length * BINDING_BYTES);
    const view = new DataView(table.buffer);
    bindings.forEach((b, i) => {
      if (!b) return;
      view.setUint32(i * BINDING_BYTES, b.memory.id, true);
      view.setBigUint64(i * BINDING_BYTES + 8, BigInt(b.offset), true);
      view.setBigUint64(i * BINDING_BYTES + 16, BigInt(b.bytes), true);
    });
    const out = new Uint32Array(1);
    check(
      this.library.symbols.lw_tape_load(
        this.id,
        tape,
        BigInt(tape.length),
        table,
        bindings.length,
        stepSlot ?? 0xffffffff,
        out,
        this.#error,
      ),
      this.#error,
    );
    return new LoadedTape(this.library, out[0]);
  }

  protected release(id: number): void {
    this.library.symbols.lw_device_close(id, this.#error);
  }
}

function readInfo(library: Library, id: number): DeviceInfo {
  const error = errorBlock(), block = new Uint8Array(DEVICE_INFO_BYTES);
  check(library.symbols.lw_device_info(id, block, error), error);
  const view = new DataView(block.buffer);
  const text = (at: number, n: number) =>
    new TextDecoder().decode(block.subarray(at, at + n)).split("\0")[0].trim();
  return {
    kind: DEVICE_KINDS[view.getUint32(0, true)],
    index: view.getUint32(4, true),
    threads: view.getUint32(8, true),
    memoryBytes: Number(view.getBigUint64(16, true)),
    memoryFreeBytes: Number(view.getBigUint64(24, true)),
    name: text(32, 128),
    isa: text(160, 32),
  };
}

/** A range of device memory, or a mapped file. */
export class Memory extends Handle {
  readonly #error = errorBlock();
  constructor(
    readonly library: Library,
    id: number,
    readonly bytes: number,
    readonly mapped: boolean,
    readonly use: MemoryUse | null = null,
  ) {
    super(id, mapped ? "mapped file" : "memory");
    use?.add(bytes);
  }

  write(offset: number, from: ArrayBufferView<ArrayBuffer>): void {
    check(
      this.library.symbols.lw_memory_write(
        this.id,
        BigInt(offset),
        bytesOf(from),
        BigInt(from.byteLength),
        this.#error,
      ),
      this.#error,
    );
  }

  read(offset: number, to: ArrayBufferView<ArrayBuffer>): void {
    check(
      this.library.symbols.lw_memory_read(
        this.id,
        BigInt(offset),
        bytesOf(to),
        BigInt(to.byteLength),
        this.#error,
      ),
      this.#error,
    );
  }

  copyFrom(offset: number, from: Memory, fromOffset: number, bytes: number): void {
    check(
      this.library.symbols.lw_memory_copy(
        this.id,
        BigInt(offset),
        from.id,
        BigInt(fromOffset),
        BigInt(bytes),
        this.#error,
      ),
      this.#error,
    );
  }

  /** Fills this memory with zeros so often from pinned memory of the host; ns of each. Null where the library cannot. */
  profileUpload(times: number): BigUint64Array | null {
    const profile = this.library.symbols.lw_upload_profile;
    if (!profile) return null;
    const ns = new BigUint64Array(times);
    check(profile(this.id, ns, times, this.#error), this.#error);
    return ns;
  }

  /** Words of a step block. */
  stepWrite(word: number, from: Uint32Array<ArrayBuffer>): void {
    check(
      this.library.symbols.lw_step_write(this.id, word, from, from.length, this.#error),
      this.#error,
    );
  }

  stepRead(word: number, to: Uint32Array<ArrayBuffer>): void {
    check(
      this.library.symbols.lw_step_read(this.id, word, to, to.length, this.#error),
      this.#error,
    );
  }

  protected release(id: number): void {
    this.use?.add(-this.bytes);
    if (this.mapped) this.library.symbols.lw_weights_unmap(id, this.#error);
    else this.library.symbols.lw_memory_free(id, this.#error);
  }
}

function bytesOf(view: ArrayBufferView<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Reads tokens sampled so far, also while a play runs; returns how many were copied to `to`. */
export function readRing(
  step: Memory,
  history: Memory,
  first: number,
  from: number,
  to: Uint32Array<ArrayBuffer>,
): number {
  const error = errorBlock(), n = new Uint32Array(1);
  check(
    step.library.symbols.lw_ring_read(step.id, history.id, first, from, to, to.length, n, error),
    error,
  );
  return n[0];
}

/** A tape in native memory, ready to be played. */
export class LoadedTape extends Handle {
  // Fixed buffers: a call of the token loop allocates nothing here.
  readonly #played = new Uint32Array(1);
  readonly #error = errorBlock();
  #playing = false;

  constructor(readonly library: Library, id: number) {
    super(id, "tape");
  }

  /** Plays up to `times` times on the calling thread; returns how often it did. */
  play(times = 1): number {
    if (this.#playing) throw new Error("This tape is already being played");
    check(
      this.library.symbols.lw_tape_play(this.id, times, this.#played, this.#error),
      this.#error,
    );
    return this.#played[0];
  }

  /** Plays on another thread. One play of a tape object at a time. */
  async playAsync(times: number): Promise<number> {
    if (this.#playing) throw new Error("This tape is already being played");
    this.#playing = true;
    try {
      const status = await this.library.symbols.lw_tape_play_async(
        this.id,
        times,
        this.#played,
        this.#error,
      );
      check(status, this.#error);
      return this.#played[0];
    } finally {
      this.#playing = false;
    }
  }

  /** Plays once, record by record; ns of each. */
  profile(records: number): BigUint64Array {
    const ns = new BigUint64Array(records);
    check(
      this.library.symbols.lw_tape_profile(this.id, ns, records, this.#error),
      this.#error,
    );
    return ns;
  }

  protected release(id: number): void {
    this.library.symbols.lw_tape_free(id, this.#error);
  }
}

export { NativeError, STATUS };
