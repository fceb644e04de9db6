/**
 * Sizes, limits and codes of everything that crosses into native code. `gen.ts` writes them to
 * native/gen/abi.h, so both sides read one list; the layout hash covers it and the op table.
 */

export const ABI_VERSION = 1;

/** One record: kernel, flags, groups[3], threads, 2 spare words, slots, words; all u32. */
export const SLOTS_MAX = 24;
export const WORDS_MAX = 16;
export const RECORD_HEAD_WORDS = 8;
export const RECORD_BYTES = 4 * (RECORD_HEAD_WORDS + SLOTS_MAX + WORDS_MAX);
/** A slot index that means: no tensor here. */
export const NO_SLOT = 0xffffffff;
/** Flag bit: earlier records must have finished. */
export const FLAG_WAIT = 1;

export const RECORDS_MAX = 1 << 16;
export const TAPE_SLOTS_MAX = 1 << 16;
export const AXIS_MAX = 1 << 24;
export const THREADS_MAX = 1024;

/** Tape header in front of the records: magic, version, records, slots; all u32. */
export const TAPE_MAGIC = 0x5054574c; // "LWTP"
export const TAPE_HEAD_BYTES = 16;
/** One binding of a slot: memory id (u32), spare (u32), offset (u64), bytes (u64). */
export const BINDING_BYTES = 24;

/** Caller-owned error block: status (i32), record (u32), backend code (i32), spare, text. */
export const ERROR_BYTES = 256;
export const ERROR_TEXT_AT = 16;
export const NO_RECORD = 0xffffffff;

export const STATUS = {
  ok: 0,
  /** The caller can fix it: wrong argument, malformed tape, stale handle. */
  refused: -1,
  /** The machine ran out of memory. */
  outOfMemory: -2,
  /** A file could not be opened or mapped. */
  io: -3,
  /** The device failed or is not there. */
  device: -4,
} as const;

export const DEVICE_KINDS = ["cpu", "null", "cuda", "metal", "emu"] as const;
export type DeviceKind = (typeof DEVICE_KINDS)[number];
/** Kinds that run a record as threadgroups of its .metal kernel; the others run tasks. */
export const THREADGROUP_KINDS: readonly DeviceKind[] = ["cuda", "metal", "emu"];
/** Kinds with memory of their own: files are copied there, where the others use them in place. */
export const OWN_MEMORY_KINDS: readonly DeviceKind[] = ["cuda"];
/** On these a slot begins at a multiple of so many bytes, for vector loads; read-only weights at less, and u32 anywhere. */
export const SLOT_ALIGN = 16;
export const WEIGHT_ALIGN = 8;

/** Device info block: see lw_device_info in native/include/lapwing.h. */
export const DEVICE_INFO_BYTES = 256;

/** Element types as native code knows them; affine formats are numbered by gen.ts behind these. */
export const DTYPE_CODES = ["none", "f32", "f16", "bf16", "q8", "i8", "u32"] as const;
