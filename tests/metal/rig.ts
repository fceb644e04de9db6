/**
 * The test library: the Metal player over the fake Metal, with what the fake counts, can be told and complains about.
 * Tests are skipped where it is not built (`make test-metal`).
 */
import assert from "node:assert/strict";
import { type Binding, Device, type LoadedTape, type Memory } from "../../ffi/abi/handle.ts";
import { openLibrary } from "../../ffi/abi/open.ts";
import { encodeTape, launchForm } from "../../ffi/tape/encode.ts";
import { type PlannedTape, planTape } from "../../ffi/tape/plan.ts";
import type { Tape } from "../../ffi/tape/tape.ts";

export const LIBRARY = new URL("../../build/metal-fake/liblapwing.so", import.meta.url).pathname;

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

export const built = exists(LIBRARY);
const text = (s: string) => new TextEncoder().encode(s + "\0");
const library = built ? openLibrary(LIBRARY) : null;
const symbols = built
  ? Deno.dlopen(LIBRARY, {
    lw_fake_count: { parameters: ["buffer"], result: "i64" },
    lw_fake_set: { parameters: ["buffer", "u64"], result: "void" },
    lw_fake_reset: { parameters: [], result: "void" },
    lw_fake_set_text: { parameters: ["buffer", "buffer"], result: "void" },
    lw_fake_misuse: { parameters: ["buffer", "u64"], result: "void" },
    lw_fake_try: { parameters: ["buffer"], result: "void" },
  }).symbols
  : null;

export const fake = {
  /** How often something happened; "live X" and "made X" count objects of a class. */
  count: (name: string): number => Number(symbols!.lw_fake_count(text(name))),
  counts: (...names: string[]): number[] => names.map(fake.count),
  set: (name: string, value: number | bigint) => symbols!.lw_fake_set(text(name), BigInt(value)),
  reset: () => symbols!.lw_fake_reset(),
  caches: (path: string) => symbols!.lw_fake_set_text(text("caches"), text(path)),
  /** Does something that Metal forbids. */
  try: (name: string) => symbols!.lw_fake_try(text(name)),
  /** What was wrong since the last call. */
  misuses: (): string[] => {
    const out = new Uint8Array(1 << 16);
    symbols!.lw_fake_misuse(out, BigInt(out.length));
    return new TextDecoder().decode(out.subarray(0, out.indexOf(0))).split("\n").slice(0, -1);
  },
};

export function openMetal(index = 0): Device {
  return Device.open("metal", index, 0, library!);
}
export function openEmulator(): Device {
  return Device.open("emu", 0, 2, library!);
}

/** A test on the fake: its settings are undone, and neither a misuse nor an object may be left. */
export function metalTest(name: string, run: () => void | Promise<void>): void {
  Deno.test({
    name: `metal: ${name}`,
    ignore: !built,
    fn: async () => {
      fake.reset();
      const before = live();
      try {
        await run();
      } finally {
        fake.reset();
      }
      assert.deepEqual(fake.misuses(), []);
      assert.deepEqual(live(), before);
    },
  });
}

const CLASSES = ["Buffer", "CommandBuffer", "Encoder", "Library", "Function", "Pipeline", "Archive"]
  .concat(["Device", "Queue", "Fence", "ResidencySet", "Samples"]);

/** Objects of the fake by class. */
export function live(): Record<string, number> {
  return Object.fromEntries(CLASSES.map((c) => [c, fake.count(`live Fake${c}`)]));
}

/** Runs with a setting; afterwards all are as they were at first. */
export function having(name: string, value: number | bigint, run: () => void): void {
  fake.set(name, value);
  try {
    run();
  } finally {
    fake.reset();
  }
}

/** A planned tape with memory of its own: one for scratch, one for each other tensor. */
export class Bound implements Disposable {
  readonly tape: LoadedTape;
  readonly planned: PlannedTape;
  readonly #memories = new Map<number, Memory>();

  constructor(readonly device: Device, tape: Tape, step?: string) {
    const p = this.planned = planTape(tape);
    const scratch = this.#memory(-1, Math.max(p.scratchBytes, 1));
    const bindings: Binding[] = p.slots.map((s, i) =>
      s.kind === "scratch"
        ? { memory: scratch, offset: p.offsets[i], bytes: s.bytes }
        : { memory: this.#memory(s.base, p.slots[s.base].bytes), offset: s.offset, bytes: s.bytes }
    );
    const at = step === undefined ? null : this.slot(step);
    try {
      this.tape = device.load(encodeTape(p, launchForm(device.info.kind)), bindings, at);
    } catch (e) {
      for (const m of this.#memories.values()) m[Symbol.dispose]();
      throw e;
    }
  }

  #memory(key: number, bytes: number): Memory {
    const memory = this.#memories.get(key) ?? this.device.alloc(bytes);
    this.#memories.set(key, memory);
    return memory;
  }

  slot(name: string): number {
    const at = this.planned.slots.findIndex((s) => s.name === name);
    assert.ok(at >= 0, `no tensor ${name}`);
    return at;
  }
  memory(name: string): Memory {
    return this.#memories.get(this.slot(name))!;
  }
  /** Writes every tensor of the host from a generator of bytes for its slot. */
  fill(contents: (slot: PlannedTape["slots"][number]) => Uint8Array<ArrayBuffer>): void {
    for (const [slot, memory] of this.#memories) {
      if (slot >= 0) memory.write(0, contents(this.planned.slots[slot]));
    }
  }
  /** Everything but scratch, by name. */
  contents(): Map<string, Uint8Array<ArrayBuffer>> {
    const out = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const [slot, memory] of this.#memories) {
      if (slot < 0) continue;
      const bytes = new Uint8Array(memory.bytes);
      memory.read(0, bytes);
      const { name, part } = this.planned.slots[slot];
      out.set(`${name} ${part}`, bytes);
    }
    return out;
  }
  /** Records that wait for an earlier one of the same play. */
  get waits(): number {
    return this.planned.waits.filter((w, i) => w && i > 0).length;
  }

  [Symbol.dispose](): void {
    this.tape[Symbol.dispose]();
    for (const m of this.#memories.values()) m[Symbol.dispose]();
  }
}
