/* lapwing.h: the C ABI, and its manual.
 *
 * The library plays tapes. A tape is a list of records; a record runs one kernel over slots, and a slot is
 * bound to a range of device memory when the tape is loaded. What a kernel computes, how it is named and
 * which words and slots its record has is declared in kernels/ and generated into native/gen.
 *
 * Every function returns LW_STATUS_OK or a negative lw_status and, when negative, fills the caller's error
 * block. `error` may be null. Handles are numbers, never reused; a stale or foreign one is refused.
 * The library never prints, exits, throws, calls back, reads the environment, or keeps a pointer of the
 * caller's after a call. Functions may be called from any thread; plays of one device run one after another.
 */
#pragma once
#include "native/gen/abi.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* 256 bytes, owned by the caller. */
typedef struct lw_error {
	int32_t status;
	uint32_t record; /* index of the record at fault, or LW_NO_RECORD */
	int32_t code;    /* errno or the backend's own code; 0 when there is none */
	uint32_t spare;
	char text[240]; /* one sentence without a full stop, NUL-terminated */
} lw_error;

/* 256 bytes. */
typedef struct lw_device_info_block {
	uint32_t kind, index, threads, spare;
	uint64_t memory_bytes;      /* of the machine or the device */
	uint64_t memory_free_bytes; /* now; 0 when unknown */
	char name[128];             /* processor or device, NUL-terminated */
	char isa[32];               /* instruction set in use, such as "avx512" */
	char spare_text[64];
} lw_device_info_block;

/* One slot of a tape bound to memory. */
typedef struct lw_binding {
	uint32_t memory; /* 0: the slot is never used (null player only) */
	uint32_t spare;
	uint64_t offset, bytes;
} lw_binding;

/* out[0] = LW_ABI_VERSION, out[1] = LW_LAYOUT_HASH: the caller compares both with its own. */
int32_t lw_abi(uint64_t out[2]);

/* Devices of one kind that can be opened now. CPU: index 0 is the best instruction set this processor has,
 * the others each name one set, so that all of them can be tested on one machine. */
int32_t lw_device_count(uint32_t kind, uint32_t* out, lw_error* error);
/* threads: 0 = as many as this process may use. */
int32_t lw_device_open(uint32_t kind, uint32_t index, uint32_t threads, uint32_t* out, lw_error* error);
int32_t lw_device_info(uint32_t device, lw_device_info_block* out, lw_error* error);
/* Memories and tapes of the device stay valid until they are freed themselves. */
int32_t lw_device_close(uint32_t device, lw_error* error);
/* Kernel names, one a line, in id order, an empty line where the device lacks the kernel.
 * needed = bytes including the final NUL; nothing is written when capacity is smaller. */
int32_t lw_kernel_list(uint32_t device, char* out, uint64_t capacity, uint64_t* needed, lw_error* error);

/* Zero-filled memory. */
int32_t lw_memory_alloc(uint32_t device, uint64_t bytes, uint32_t* out, lw_error* error);
int32_t lw_memory_write(uint32_t memory, uint64_t offset, const void* from, uint64_t bytes, lw_error* error);
int32_t lw_memory_read(uint32_t memory, uint64_t offset, void* to, uint64_t bytes, lw_error* error);
/* Between two memories of one device; ranges must not overlap. */
int32_t lw_memory_copy(uint32_t to, uint64_t to_offset, uint32_t from, uint64_t from_offset, uint64_t bytes, lw_error* error);
int32_t lw_memory_free(uint32_t memory, lw_error* error);

/* Maps a file read-only as memory; `bytes` must be the file's size, so that a file that changed since its
 * header was read is refused. Freed by lw_weights_unmap. */
int32_t lw_weights_map(uint32_t device, const char* path, uint32_t path_bytes, uint64_t bytes, uint32_t* out, lw_error* error);
int32_t lw_weights_unmap(uint32_t memory, lw_error* error);
/* Fills a memory with zeros `times` times, from pinned memory of the host with nothing to be read first, and gives the
 * nanoseconds of each: no file is mapped faster. Refused where files are used in place. */
int32_t lw_upload_profile(uint32_t memory, uint64_t* ns, uint32_t times, lw_error* error);

/* tape: LW_TAPE_HEAD_BYTES (magic, version, records, slots) and the records of LW_RECORD_BYTES each: kernel,
 * flags, groups[3], threads, 2 spare, slots[16], words[16]. Everything is checked here and never again.
 * step_slot: the slot of the step block, whose halt word ends a run of plays, or LW_NO_SLOT. */
int32_t lw_tape_load(uint32_t device, const void* tape, uint64_t tape_bytes, const lw_binding* bindings, uint32_t n_bindings, uint32_t step_slot, uint32_t* out, lw_error* error);
/* Plays up to `times` times; stops early when the step block's halt word is set. played = plays begun and
 * finished. */
int32_t lw_tape_play(uint32_t tape, uint32_t times, uint32_t* played, lw_error* error);
/* Plays once, record after record, and gives the nanoseconds of each. */
int32_t lw_tape_profile(uint32_t tape, uint64_t* ns, uint32_t n_records, lw_error* error);
int32_t lw_tape_free(uint32_t tape, lw_error* error);

/* Words of a step block, between plays. */
int32_t lw_step_write(uint32_t memory, uint32_t word, const uint32_t* from, uint32_t n, lw_error* error);
int32_t lw_step_read(uint32_t memory, uint32_t word, uint32_t* to, uint32_t n, lw_error* error);
/* Tokens sampled so far, also while a play runs: token i stands at history[first + i]. Copies tokens
 * from..min(produced, from + capacity) - 1; n = how many. */
int32_t lw_ring_read(uint32_t step_memory, uint32_t history_memory, uint32_t first, uint32_t from, uint32_t* to, uint32_t capacity, uint32_t* n, lw_error* error);
/* Takes the messages that players logged since the last call, NUL-terminated; older ones fall out first. */
int32_t lw_log_read(char* out, uint64_t capacity, uint64_t* needed);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
