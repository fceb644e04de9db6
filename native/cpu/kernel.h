// What a CPU kernel is. A kernel computes tasks begin..end-1 of one record; tasks run in any order and
// on any thread, write disjoint memory, and a task number beyond the record's own count does nothing.
// A kernel must be safe for any memory contents: an index that it reads from memory (token, expert,
// position) is checked against the axis it indexes. It allocates nothing and keeps no state.
#pragma once
#include <cstddef>
#include <cstdint>

// args: the op's argument struct of native/gen/ops.h; slots: base addresses, null when absent;
// scratch: LW_THREAD_SCRATCH_BYTES that belong to this thread during the call, 64-byte aligned.
typedef void (*lw_cpu_kernel)(const void* args, void* const* slots, uint32_t begin, uint32_t end, void* scratch);

constexpr size_t LW_THREAD_SCRATCH_BYTES = size_t(4) << 20;

#define LW_CPU_KERNEL(name) \
	void name(const void* args_, void* const* slots, uint32_t begin, uint32_t end, [[maybe_unused]] void* scratch)
