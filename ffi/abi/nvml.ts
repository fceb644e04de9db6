/**
 * The energy counter of NVIDIA's management library, where that is installed. Knows no tape and no device
 * of ours.
 */

const SYMBOLS = {
  nvmlInit_v2: { parameters: [], result: "i32" },
  nvmlDeviceGetHandleByIndex_v2: { parameters: ["u32", "buffer"], result: "i32" },
  nvmlDeviceGetTotalEnergyConsumption: { parameters: ["u64", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Reads the millijoules that GPU `index` used since its driver was loaded; null where it cannot be told. */
export function openEnergyCounter(index: number): (() => bigint) | null {
  let library: Deno.DynamicLibrary<typeof SYMBOLS>;
  try {
    library = Deno.dlopen("libnvidia-ml.so.1", SYMBOLS);
  } catch {
    return null;
  }
  const { symbols } = library;
  const handle = new BigUint64Array(1), millijoules = new BigUint64Array(1);
  const ok = symbols.nvmlInit_v2() === 0 &&
    symbols.nvmlDeviceGetHandleByIndex_v2(index, handle) === 0 &&
    symbols.nvmlDeviceGetTotalEnergyConsumption(handle[0], millijoules) === 0;
  if (!ok) {
    library.close();
    return null;
  }
  return () => {
    symbols.nvmlDeviceGetTotalEnergyConsumption(handle[0], millijoules);
    return millijoules[0];
  };
}
