/**
 * Meters of energy where the system gives one: RAPL on Linux, powermetrics on macOS, NVML for CUDA devices.
 * Anywhere else, and where a counter cannot be read, the reason instead.
 */
import { openEnergyCounter } from "../ffi/abi/nvml.ts";
import { monotonicClock } from "./clock.ts";
import type { EnergyMeter } from "./port.ts";
import { type Child, type ChildHost, PowermetricsMeter } from "./powermetrics.ts";

export type Energy = EnergyMeter | { readonly absent: string };

const RAPL = "/sys/class/powercap";

export interface EnergyHost extends ChildHost {
  readonly os: string;
  readTextFile(path: string): Promise<string>;
  /** Names in a folder; empty where it cannot be read. */
  list(path: string): Promise<string[]>;
  /** Millijoules of a GPU so far, where its driver tells. */
  gpuEnergy(index: number): (() => bigint) | null;
  /** Whether this process may do what is root's alone. */
  isRoot(): boolean;
}

/** A counter that is read when asked: it cannot be lost, and nothing is left to end. */
const COUNTER = { lost: () => null, [Symbol.dispose]() {} };

/** The meter of a device. */
export async function energyMeter(device: string, host: EnergyHost): Promise<Energy> {
  if (device === "cuda") return nvml(host);
  if (host.os === "linux") return await rapl(host);
  if (host.os === "darwin") return await powermetrics(host);
  return { absent: `no energy counter is known on ${host.os}` };
}

/** Packages of all sockets; their counters wrap around. */
async function rapl(host: EnergyHost): Promise<Energy> {
  const zones = (await host.list(RAPL)).filter((name) => /^intel-rapl:\d+$/.test(name));
  if (zones.length === 0) return { absent: "this machine shows no RAPL counters" };
  try {
    const counters = await Promise.all(zones.map(async (zone) => ({
      path: `${RAPL}/${zone}/energy_uj`,
      range: Number(await host.readTextFile(`${RAPL}/${zone}/max_energy_range_uj`)),
      last: Number(await host.readTextFile(`${RAPL}/${zone}/energy_uj`)),
    })));
    let total = 0;
    const joules = async () => {
      for (const c of counters) {
        const now = Number(await host.readTextFile(c.path));
        total += now >= c.last ? now - c.last : now + c.range - c.last;
        c.last = now;
      }
      return total / 1e6;
    };
    return { ...COUNTER, source: "rapl", joules };
  } catch {
    return { absent: "the RAPL counters may only be read by root" };
  }
}

async function powermetrics(host: EnergyHost): Promise<Energy> {
  if (host.isRoot()) return await PowermetricsMeter.open(host);
  return { absent: "powermetrics shows power to root alone: run the benchmark with sudo" };
}

function nvml(host: EnergyHost): Energy {
  const counter = host.gpuEnergy(0);
  if (!counter) return { absent: "NVIDIA's management library shows no total energy" };
  return { ...COUNTER, source: "nvml", joules: () => Promise.resolve(Number(counter()) / 1e3) };
}

export const systemHost: EnergyHost = {
  os: Deno.build.os,
  readTextFile: (path) => Deno.readTextFile(path),
  list: async (path) => {
    try {
      return (await Array.fromAsync(Deno.readDir(path))).map((e) => e.name);
    } catch {
      return [];
    }
  },
  gpuEnergy: openEnergyCounter,
  isRoot: () => {
    try {
      return Deno.uid() === 0;
    } catch {
      return false;
    }
  },
  start: startChild,
  now: () => monotonicClock.now(),
};

/** Starts a program whose output is read as text; nothing is given to it. */
export function startChild(program: string, args: readonly string[]): Child {
  const child = new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const complaint = new Response(child.stderr).text();
  const ended = async () => {
    const { code } = await child.status;
    return (await complaint).trim().split("\n", 1)[0] || `exit code ${code}`;
  };
  return {
    output: child.stdout.pipeThrough(new TextDecoderStream()),
    ended: ended(),
    kill: () => {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended by itself.
      }
    },
  };
}
