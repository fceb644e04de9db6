/** Kinds of devices of this machine that play .metal kernels: the emulator, and GPUs, which are fast. */
import { Device } from "../ffi/abi/handle.ts";
import { THREADGROUP_KINDS } from "../ffi/abi/layout.ts";

export const KERNEL_KINDS = THREADGROUP_KINDS.filter((kind) => Device.count(kind) > 0);
export const GPU_KINDS = KERNEL_KINDS.filter((kind) => kind !== "emu");
