/**
 * The machine around a measurement: what it is, what it runs on, and counters that tell what else happened.
 * Reads the system's own files and tools; judges nothing.
 */
import type { Device } from "../ffi/abi/handle.ts";
import { fileSha256, mappedPath } from "./identity.ts";
import type { MachineReading } from "./port.ts";
import type { Environment } from "./report.ts";

const LINUX = Deno.build.os === "linux";
const DARWIN = Deno.build.os === "darwin";

async function text(path: string): Promise<string | null> {
  return await Deno.readTextFile(path).then((t) => t.trim(), () => null);
}

async function output(command: string, ...args: string[]): Promise<string | null> {
  try {
    const done = await new Deno.Command(command, { args, stderr: "null" }).output();
    return done.success ? new TextDecoder().decode(done.stdout).trim() : null;
  } catch {
    return null;
  }
}

export interface MeasuredBandwidth {
  readonly read: number;
  readonly copy: number;
}

/** Everything about the machine that a reader of numbers must know; `bandwidth` in bytes a second. */
export async function captureEnvironment(
  device: Device,
  bandwidth: MeasuredBandwidth | null,
): Promise<Environment> {
  const memory = Deno.systemMemoryInfo(), { info, library } = device;
  const path = await mappedPath(library.path);
  return {
    os: Deno.build.os,
    kernel: Deno.osRelease(),
    machine: await machineName(),
    cpu: info.kind === "cpu" ? info.name : await cpuName(),
    gpus: info.kind === "cuda" || info.kind === "metal" ? await gpus(info.name, bandwidth) : [],
    mem_bytes: memory.total,
    mem_available_bytes: memory.available,
    power_source: await powerSource(),
    low_power: await lowPower(),
    governor: await text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    load_before: [...Deno.loadavg()],
    library: {
      path,
      sha256: await fileSha256(path).catch(() => null),
      backend: info.kind,
      isa: info.isa,
      threads: info.threads,
    },
    read_gb_s: bandwidth && bandwidth.read / 1e9,
    copy_gb_s: bandwidth && bandwidth.copy / 1e9,
    deno_version: Deno.version.deno,
  };
}

async function machineName(): Promise<string> {
  const name = DARWIN
    ? await output("sysctl", "-n", "hw.model")
    : await text("/sys/devices/virtual/dmi/id/product_name");
  return name ? `${name} (${Deno.build.arch})` : Deno.build.arch;
}

async function cpuName(): Promise<string> {
  if (DARWIN) return await output("sysctl", "-n", "machdep.cpu.brand_string") ?? "unknown";
  return /^model name\s*:\s*(.+)$/m.exec(await text("/proc/cpuinfo") ?? "")?.[1] ?? "unknown";
}

async function gpus(
  name: string,
  bandwidth: MeasuredBandwidth | null,
): Promise<Environment["gpus"]> {
  const fields = "--query-gpu=driver_version,power.limit";
  const found = DARWIN
    ? null
    : await output("nvidia-smi", fields, "--format=csv,noheader,nounits", "--id=0");
  const [driver = null, limit = null] = found?.split(",").map((x) => x.trim()) ?? [];
  const watts = limit === null ? NaN : Number(limit);
  return [{
    name,
    driver,
    bw_measured_gb_s: bandwidth && bandwidth.read / 1e9,
    power_limit_w: Number.isFinite(watts) ? watts : null,
  }];
}

async function powerSource(): Promise<Environment["power_source"]> {
  if (DARWIN) {
    const said = await output("pmset", "-g", "batt");
    return said === null ? null : /Battery Power/.test(said) ? "battery" : "mains";
  }
  const folder = "/sys/class/power_supply";
  let seen = false;
  try {
    for await (const { name } of Deno.readDir(folder)) {
      if (await text(`${folder}/${name}/type`) !== "Battery") continue;
      seen = true;
      if (await text(`${folder}/${name}/status`) === "Discharging") return "battery";
    }
  } catch {
    return null;
  }
  return seen ? "mains" : null;
}

async function lowPower(): Promise<boolean | null> {
  if (DARWIN) {
    const said = /lowpowermode\s+(\d)/.exec(await output("pmset", "-g") ?? "");
    return said ? said[1] === "1" : null;
  }
  const profile = await text("/sys/firmware/acpi/platform_profile");
  return profile === null ? null : profile === "low-power";
}

/** Linux counts CPU time in units of 1/100 s for its readers. */
const TICK_NS = 1e7;

/** Counters of the whole machine; the difference of two readings is what happened between them. */
export async function readMachine(): Promise<MachineReading> {
  const cpus = navigator.hardwareConcurrency;
  if (DARWIN) {
    const swapped = /^Swapouts:\s*(\d+)/m.exec(await output("vm_stat") ?? "");
    return { swappedPages: swapped ? Number(swapped[1]) : null, foreignCpuNs: null, cpus };
  }
  if (!LINUX) return { swappedPages: null, foreignCpuNs: null, cpus };
  const pages = [...(await text("/proc/vmstat") ?? "").matchAll(/^pswp(?:in|out) (\d+)$/gm)];
  return {
    swappedPages: pages.length > 0 ? pages.reduce((sum, m) => sum + Number(m[1]), 0) : null,
    foreignCpuNs: foreignTime(await text("/proc/stat") ?? "", await text("/proc/self/stat") ?? ""),
    cpus,
  };
}

/** Time of all processors that was neither idle nor this process's. */
export function foreignTime(stat: string, self: string): number | null {
  const all = /^cpu +(.+)$/m.exec(stat)?.[1].trim().split(/ +/).map(Number);
  // The name in brackets may hold spaces; utime and stime are fields 14 and 15.
  const own = self.slice(self.lastIndexOf(")") + 2).split(" ").map(Number);
  if (!all || all.length < 8 || own.length < 13) return null;
  const [user, nice, system, , , irq, softirq, steal] = all;
  return (user + nice + system + irq + softirq + steal - own[11] - own[12]) * TICK_NS;
}

/** Resident memory of this process now, in bytes. */
export function residentMemory(): number {
  return Deno.memoryUsage().rss;
}

/**
 * The high water mark of this process's resident memory between start() and bytes(). Where the system's own
 * mark cannot be reset, it is what is resident in the end: what was allocated meanwhile is still there then.
 */
export class PeakMemory {
  #reset = false;

  async start(): Promise<void> {
    this.#reset = LINUX && await Deno.writeTextFile("/proc/self/clear_refs", "5")
      .then(() => true, () => false);
  }

  async bytes(): Promise<number> {
    const status = this.#reset ? await text("/proc/self/status") : null;
    const mark = status && /^VmHWM:\s*(\d+) kB$/m.exec(status);
    return mark ? Number(mark[1]) * 1024 : residentMemory();
  }
}
