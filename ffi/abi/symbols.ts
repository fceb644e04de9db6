/** The symbols of native/include/lapwing.h, in its order. u64 crosses as BigInt only. */

const ERROR = "buffer";

export const SYMBOLS = {
  lw_abi: { parameters: ["buffer"], result: "i32" },
  lw_device_count: { parameters: ["u32", "buffer", ERROR], result: "i32" },
  lw_device_open: { parameters: ["u32", "u32", "u32", "buffer", ERROR], result: "i32" },
  lw_device_info: { parameters: ["u32", "buffer", ERROR], result: "i32" },
  lw_device_close: { parameters: ["u32", ERROR], result: "i32" },
  lw_kernel_list: { parameters: ["u32", "buffer", "u64", "buffer", ERROR], result: "i32" },
  lw_memory_alloc: { parameters: ["u32", "u64", "buffer", ERROR], result: "i32" },
  lw_memory_write: { parameters: ["u32", "u64", "buffer", "u64", ERROR], result: "i32" },
  lw_memory_read: { parameters: ["u32", "u64", "buffer", "u64", ERROR], result: "i32" },
  lw_memory_copy: { parameters: ["u32", "u64", "u32", "u64", "u64", ERROR], result: "i32" },
  lw_memory_free: { parameters: ["u32", ERROR], result: "i32" },
  lw_weights_map: { parameters: ["u32", "buffer", "u32", "u64", "buffer", ERROR], result: "i32" },
  lw_weights_unmap: { parameters: ["u32", ERROR], result: "i32" },
  // Older libraries, which `compare` opens too, have none.
  lw_upload_profile: {
    parameters: ["u32", "buffer", "u32", ERROR],
    result: "i32",
    optional: true,
  },
  lw_tape_load: {
    parameters: ["u32", "buffer", "u64", "buffer", "u32", "u32", "buffer", ERROR],
    result: "i32",
  },
  lw_tape_play: { parameters: ["u32", "u32", "buffer", ERROR], result: "i32" },
  lw_tape_play_async: {
    name: "lw_tape_play",
    parameters: ["u32", "u32", "buffer", ERROR],
    result: "i32",
    nonblocking: true,
  },
  lw_tape_profile: { parameters: ["u32", "buffer", "u32", ERROR], result: "i32" },
  lw_tape_free: { parameters: ["u32", ERROR], result: "i32" },
  lw_step_write: { parameters: ["u32", "u32", "buffer", "u32", ERROR], result: "i32" },
  lw_step_read: { parameters: ["u32", "u32", "buffer", "u32", ERROR], result: "i32" },
  lw_ring_read: {
    parameters: ["u32", "u32", "u32", "u32", "buffer", "u32", "buffer", ERROR],
    result: "i32",
  },
  lw_log_read: { parameters: ["buffer", "u64", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

export type Symbols = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
