// A tape after its one check: records whose every index, size and slot range is known to be right.
#pragma once
#include <memory>
#include <vector>

#include "native/core/op_table.h"
#include "native/core/status.h"

namespace lw {

struct memory_block;
struct player;

struct record {
	uint32_t kernel, flags, groups[3], threads, spare[2];
	uint32_t slots[LW_SLOTS_MAX];
	uint32_t words[LW_WORDS_MAX];
};
static_assert(sizeof(record) == LW_RECORD_BYTES, "record");

struct slot_range {
	std::shared_ptr<memory_block> memory;  // null: unused slot
	uint64_t offset, bytes;
};

struct tape {
	std::vector<record> records;
	std::vector<slot_range> slots;
	uint32_t step_slot;
};

// Parses and checks everything; `device` answers which kernels exist. needs_memory is false for a player that
// computes nothing, whose slots may be unbound.
int32_t check_tape(const void* bytes, uint64_t n_bytes, std::vector<slot_range> slots, uint32_t step_slot, player& device, bool needs_memory, std::shared_ptr<const tape>* out, lw_error* error);

}  // namespace lw
