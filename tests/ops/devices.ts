/**
 * The CPU devices that the op tests play on: every usable instruction set, with one thread and with three.
 * Opened when first imported, so that no single test owns them.
 */
import { Device } from "../../ffi/abi/handle.ts";
import { Player } from "./arena.ts";

export interface Level {
  readonly isa: string;
  /** With one thread, and with more threads than most cases have tasks for. */
  readonly one: Player;
  readonly three: Player;
}

export const LEVELS: readonly Level[] = Array.from({ length: Device.count("cpu") }, (_, index) => {
  const one = new Player(Device.open("cpu", index, 1));
  return { isa: one.device.info.isa, one, three: new Player(Device.open("cpu", index, 3)) };
});
