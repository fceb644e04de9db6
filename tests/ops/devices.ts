/**
 * The devices that the op tests play on: every usable instruction set of the CPU, and what runs .metal
 * kernels; each with one thread and with three.
 * Opened when first imported, so that no single test owns them.
 */
import { Device } from "../../ffi/abi/handle.ts";
import type { LaunchForm } from "../../ffi/tape/encode.ts";
import type { Op } from "../../kernels/define.ts";
import { KERNEL_KINDS } from "../kernel_kinds.ts";
import { Player } from "./arena.ts";

export interface Level {
  readonly isa: string;
  readonly form: LaunchForm;
  /** With one thread, and with more threads than most cases have tasks for. */
  readonly one: Player;
  readonly three: Player;
}

export const LEVELS: readonly Level[] = Array.from({ length: Device.count("cpu") }, (_, index) => {
  const one = new Player(Device.open("cpu", index, 1));
  return {
    isa: one.device.info.isa,
    form: "tasks",
    one,
    three: new Player(Device.open("cpu", index, 3)),
  };
});

/** Where .metal kernels run here: the emulator, and GPUs. */
export const KERNEL_DEVICES: readonly Level[] = KERNEL_KINDS.flatMap((kind) =>
  Array.from({ length: Device.count(kind) }, (_, index): Level => {
    const one = new Player(Device.open(kind, index, 1));
    const three = new Player(Device.open(kind, index, 3));
    return { isa: one.device.info.isa, form: "threadgroups", one, three };
  })
);

/** Every device that has kernels of an op. */
export function levelsOf(op: Op): readonly Level[] {
  return "none" in op.simt ? LEVELS : [...LEVELS, ...KERNEL_DEVICES];
}
