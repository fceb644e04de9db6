/**
 * The anchor: how fast this device reads and copies memory and takes the host's, measured in the same run and
 * with the same threads as the rows that are held against it.
 */
import { BandwidthProbe } from "../engine/bandwidth.ts";
import { type Device, NativeError } from "../ffi/abi/handle.ts";
import { OWN_MEMORY_KINDS, STATUS } from "../ffi/abi/layout.ts";
import type { Clock } from "./port.ts";

const SAMPLE_NS = 10_000_000;
const SAMPLES = 8;
/** Far beyond the caches; more would measure the same. */
const FAR_BYTES = 512 << 20;
/** Some milliseconds of a bus. */
const UPLOAD_BYTES = 256 << 20;
export const WORKING_SET_MAX = 1 << 30;

export interface Bandwidth {
  /** Bytes a second. */
  readonly read: number;
  /** Bytes read and written a second. */
  readonly copy: number;
  /** Size of what was read. */
  readonly bytes: number;
}

/**
 * Runs `play(times)` until samples are long enough; the fastest of them in bytes a second, since a bound is
 * what is wanted and whatever disturbs only slows.
 */
export async function fastest(
  play: (times: number) => Promise<void>,
  bytes: number,
  clock: Clock,
): Promise<number> {
  let times = 1, best = 0;
  for (let taken = 0; taken < SAMPLES;) {
    const from = clock.now();
    await play(times);
    const ns = Math.max(1, Number(clock.now() - from));
    best = Math.max(best, bytes * times * 1e9 / ns);
    if (ns >= SAMPLE_NS / 2 || times >= 1 << 20) taken++;
    else times = Math.min(1 << 20, Math.ceil(times * Math.min(100, SAMPLE_NS / ns)));
  }
  return best;
}

/** Reading of a working set: as fast as the caches are where it fits into them. */
export async function readBandwidth(device: Device, bytes: number, clock: Clock): Promise<number> {
  using probe = new BandwidthProbe(device, Math.min(bytes, WORKING_SET_MAX, spare(device)), false);
  return await fastest((times) => probe.read(times), probe.bytes, clock);
}

/** Reading and copying far beyond the caches. */
export async function farBandwidth(device: Device, clock: Clock): Promise<Bandwidth> {
  using probe = new BandwidthProbe(device, Math.min(FAR_BYTES, spare(device) / 2), true);
  return {
    bytes: probe.bytes,
    read: await fastest((times) => probe.read(times), probe.bytes, clock),
    copy: await fastest((times) => probe.copy(times), 2 * probe.bytes, clock),
  };
}

/**
 * The fastest copying of pinned memory to a device with memory of its own, bytes a second: what loading a
 * checkpoint cannot beat. Null where files are used in place, the library does not measure it, or there is no memory for it.
 */
export function uploadBandwidth(device: Device): number | null {
  if (!OWN_MEMORY_KINDS.includes(device.info.kind)) return null;
  try {
    using memory = device.alloc(Math.min(UPLOAD_BYTES, spare(device)));
    const ns = memory.profileUpload(SAMPLES);
    return ns && memory.bytes * 1e9 / Math.max(1, Math.min(...Array.from(ns, Number)));
  } catch (e) {
    // The model may have left no room: what was taken of loading stands without a limit.
    if (e instanceof NativeError && e.status === STATUS.outOfMemory) return null;
    throw e;
  }
}

/** A quarter of what is free, so that the anchor never pushes the model out of memory. */
function spare(device: Device): number {
  const free = device.info.memoryFreeBytes || Deno.systemMemoryInfo().available;
  return Math.max(1 << 20, Math.floor(free / 4));
}
