/**
 * The real machine around a comparison: its clock, an anchor that measures memory without touching the
 * subjects, and the signs that something else disturbed a pair. Judges none of them.
 */
import { monotonicClock } from "./clock.ts";
import type { Disturbance, Surroundings } from "./subject.ts";

const ANCHOR_NS = 50_000_000n;
/** Beyond the last-level cache of the machines that this runs on. */
const ANCHOR_BYTES = 64 << 20;

/** The machine that this process runs on. `device` is where the subjects run. */
export function machineSurroundings(device: string, signal?: AbortSignal): Surroundings {
  const copy = new MemoryCopy();
  const watch = new DisturbanceWatch(device);
  return {
    clock: monotonicClock,
    sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
    anchor: () => Promise.resolve(copy.bytesPerSecond()),
    disturbance: () => watch.read(),
    ...(signal ? { signal } : {}),
  };
}

class MemoryCopy {
  readonly #from = new Uint8Array(ANCHOR_BYTES).fill(1);
  readonly #to = new Uint8Array(ANCHOR_BYTES);

  /** The fastest of the copies that fit: a copy that was interrupted says nothing about the memory. */
  bytesPerSecond(): number {
    const { now } = monotonicClock;
    const end = now() + ANCHOR_NS;
    let best = 0;
    do {
      const from = now();
      this.#to.set(this.#from);
      best = Math.max(best, ANCHOR_BYTES * 1e9 / Number(now() - from));
    } while (now() < end);
    return best;
  }
}

/** Counters of the system, as changes since they were last read. */
export class DisturbanceWatch {
  #throttles: number | null = null;
  #pageOuts: number | null = null;

  constructor(readonly device: string) {}

  async read(): Promise<Disturbance> {
    const throttles = await throttleCount();
    const pageOuts = await pageOutCount();
    const gpu = this.device === "cuda" ? await nvidiaState() : null;
    const grown = grow(throttles, this.#throttles), paged = grow(pageOuts, this.#pageOuts);
    this.#throttles = throttles;
    this.#pageOuts = pageOuts;
    const cpu = Deno.build.os === "darwin"
      ? isSlowed(await output("pmset", ["-g", "therm"]) ?? "")
      : grown === null
      ? null
      : grown > 0;
    return {
      throttled: gpu?.throttled || cpu,
      page_outs: paged,
      gpu_contended: gpu?.contended ?? null,
    };
  }
}

/** Change of a counter since it was last read. */
function grow(now: number | null, before: number | null): number | null {
  return now === null || before === null ? null : Math.max(0, now - before);
}

async function readText(path: string): Promise<string | null> {
  return await Deno.readTextFile(path).catch(() => null);
}

async function output(command: string, args: readonly string[]): Promise<string | null> {
  try {
    const done = await new Deno.Command(command, { args: [...args], stderr: "null" }).output();
    return done.code === 0 ? new TextDecoder().decode(done.stdout) : null;
  } catch {
    return null;
  }
}

async function throttleCount(): Promise<number | null> {
  const cpu = "/sys/devices/system/cpu/cpu0/thermal_throttle/";
  const text = await readText(cpu + "package_throttle_count") ??
    await readText(cpu + "core_throttle_count");
  return text === null ? null : Number(text);
}

async function pageOutCount(): Promise<number | null> {
  return Deno.build.os === "darwin"
    ? pageOutsOfVmStat(await output("vm_stat", []) ?? "")
    : pageOutsOfProc(await readText("/proc/vmstat") ?? "");
}

/** Whether macOS holds the CPU below its full speed; null where it does not say. */
export function isSlowed(text: string): boolean | null {
  const limit = /CPU_Speed_Limit\s*=\s*(\d+)/.exec(text);
  return limit ? Number(limit[1]) < 100 : null;
}

export function pageOutsOfVmStat(text: string): number | null {
  const found = /^Swapouts:\s*(\d+)\./m.exec(text);
  return found ? Number(found[1]) : null;
}

export function pageOutsOfProc(text: string): number | null {
  const found = /^pswpout (\d+)$/m.exec(text);
  return found ? Number(found[1]) : null;
}

/** Reasons that mean less speed than was asked for: thermal and power brakes, not idling. */
const NVIDIA_BRAKES = 0x0000_0008n | 0x0000_0020n | 0x0000_0040n | 0x0000_0080n;

async function nvidiaState(): Promise<{ throttled: boolean; contended: boolean } | null> {
  const reasons = await output("nvidia-smi", [
    "--query-gpu=clocks_throttle_reasons.active",
    "--format=csv,noheader",
    "--id=0",
  ]);
  const users = await output("nvidia-smi", [
    "--query-compute-apps=pid",
    "--format=csv,noheader",
    "--id=0",
  ]);
  if (reasons === null || users === null) return null;
  return nvidiaDisturbance(reasons, users);
}

/** More processes on the GPU than the two subjects are somebody else. */
export function nvidiaDisturbance(reasons: string, users: string) {
  const active = /0x[0-9a-fA-F]+/.exec(reasons);
  const pids = users.split("\n").filter((line) => /\d/.test(line));
  return {
    throttled: active !== null && (BigInt(active[0]) & NVIDIA_BRAKES) !== 0n,
    contended: pids.length > 2,
  };
}
