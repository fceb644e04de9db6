/**
 * Memory of a device to be read and copied, as tapes of one record. Owns buffers and tapes; reads no clock.
 */
import type { Binding, Device, LoadedTape, Memory } from "../ffi/abi/handle.ts";
import { encodeTape, launchForm } from "../ffi/tape/encode.ts";
import { planTape } from "../ffi/tape/plan.ts";
import { Tape } from "../ffi/tape/tape.ts";
import { streamCopy } from "../kernels/ops/stream_copy/op.ts";
import { streamRead } from "../kernels/ops/stream_read/op.ts";

/** One task reads so much at most: enough to amortise its start, little enough to share among threads. */
const BLOCK_BYTES = 1 << 16;
const FILL_BYTES = 1 << 22;

export class BandwidthProbe implements Disposable {
  /** Bytes of one buffer: near what was asked for, as blocks are whole. */
  readonly bytes: number;
  readonly #from: Memory;
  readonly #to: Memory | null;
  readonly #sums: Memory;
  readonly #read: LoadedTape;
  readonly #copy: LoadedTape | null;

  /** `copy`: also allocates a second buffer to copy into. */
  constructor(readonly device: Device, bytes: number, copy: boolean) {
    const threads = Math.max(1, device.info.threads);
    const blocks = Math.max(4 * threads, Math.ceil(bytes / BLOCK_BYTES));
    const dim = Math.max(16, Math.floor(bytes / 4 / blocks));
    this.bytes = 4 * blocks * dim;
    using stack = new DisposableStack();
    this.#from = stack.use(device.alloc(this.bytes));
    this.#sums = stack.use(device.alloc(4 * blocks));
    this.#to = copy ? stack.use(device.alloc(this.bytes)) : null;
    // Memory that nobody wrote may be one page of zeros, mapped often.
    for (const memory of this.#to ? [this.#from, this.#to] : [this.#from]) touch(memory);
    this.#read = stack.use(this.#load(
      (tape, x) => {
        tape.emit(streamRead, { x, y: tape.state("sums", "u32", [blocks]) }, {});
      },
      [blocks, dim],
      [this.#from, this.#sums],
    ));
    this.#copy = this.#to && stack.use(this.#load(
      (tape, x) => {
        tape.emit(streamCopy, { x, y: tape.state("to", "u32", [blocks, dim]) }, {});
      },
      [blocks, dim],
      [this.#from, this.#to],
    ));
    this.#owned = stack.move();
  }
  readonly #owned: DisposableStack;

  async read(times: number): Promise<void> {
    await this.#read.playAsync(times);
  }

  /** Moves twice `bytes` each time: read and written. */
  async copy(times: number): Promise<void> {
    if (!this.#copy) throw new Error("This probe has no second buffer");
    await this.#copy.playAsync(times);
  }

  #load(
    record: (tape: Tape, x: ReturnType<Tape["state"]>) => void,
    shape: readonly number[],
    memories: readonly Memory[],
  ): LoadedTape {
    const tape = new Tape();
    record(tape, tape.state("from", "u32", shape));
    const bindings = memories.map((memory): Binding => ({
      memory,
      offset: 0,
      bytes: memory.bytes,
    }));
    return this.device.load(
      encodeTape(planTape(tape), launchForm(this.device.info.kind)),
      bindings,
      null,
    );
  }

  [Symbol.dispose](): void {
    this.#owned[Symbol.dispose]();
  }
}

function touch(memory: Memory): void {
  const piece = new Uint32Array(Math.min(FILL_BYTES, memory.bytes) / 4).map((_, i) => i);
  for (let at = 0; at < memory.bytes; at += piece.byteLength) {
    memory.write(at, piece.subarray(0, Math.min(piece.byteLength, memory.bytes - at) / 4));
  }
}
