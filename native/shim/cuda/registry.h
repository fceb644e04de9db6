// How a host finds CUDA kernels by name. Translated ones are launched as their record says; an override of the same
// name (kernels/ops/<op>/<op>.cu) has a launch of its own and may leave a record's sizes to the translated kernel.
// Parameters: one pointer a slot in the order of the slots, the argument struct, a place for a time stamp or null, and what
// an override asks for beside.
#pragma once
#include <cstdint>

namespace lw_cuda {

struct Kernel {
	const char* name;
	const void* function;
	uint32_t slots, args_bytes;
	uint32_t threads, threadgroup_bytes;
	const Kernel* next;
};
inline const Kernel* registry = nullptr;

struct Register {
	Kernel kernel;
	Register(const char* name, const void* function, uint32_t slots, uint32_t args_bytes, uint32_t threads, uint32_t threadgroup_bytes)
		: kernel{name, function, slots, args_bytes, threads, threadgroup_bytes, registry} {
		registry = &kernel;
	}
};

// More than half of a multiprocessor's shared memory. Two blocks of a grid that found room on one multiprocessor would
// leave another one idle: measured, that costs more than overlapping two records wins.
constexpr uint32_t EXCLUSIVE_BYTES = 115 << 10;

// What a launch depends on beside the record's words.
struct Chip {
	uint32_t multiprocessors;
};
struct Launch {
	uint32_t grid[3], threads, dynamic_bytes;
	// Percent of the first-level cache's memory that is to be shared memory, one number for a function; 0: as the driver
	// has it. Records are side by side on a multiprocessor only where it is the same.
	uint32_t carveout = 0;
	// What else the shape worked out, for kernels that are planned.
	uint32_t plan[9] = {};
};
// False: not for these sizes. `words` is the argument struct.
typedef bool (*Shape)(const void* words, const Chip& chip, Launch* out);

// Of these slots, as bits, the kernel writes only rows from the position on that the step block in slot `step` has, or reads
// only rows before it until it has waited: such records may overlap.
struct Appended {
	uint32_t slots = 0, step = 0;
};

// A record that the one before it can do as well, in a graph: of this kernel, where its slot `from` is the other one's slot
// `made` and sizes fit. What it writes to, its slot `to`, is then given to the other one's kernel behind the time stamp,
// where otherwise null is.
struct Tail {
	const char* name;
	uint32_t made, from, to;
	bool (*fits)(const void* words, const void* tail_words);
};

struct Override {
	const char* name;
	const void* function;
	uint32_t slots, args_bytes;
	Shape shape;
	uint32_t early;     // slots, as bits, that the kernel reads before it waits for the record before, beside its weights
	Appended appended;
	bool hands_on;      // it calls let_next_begin
	const Tail* tail;   // null, or what may join it
	bool planned;       // its last parameters are the launch's plan and a counter of its record, which it leaves at zero
	const Override* next;
};
inline const Override* overrides = nullptr;

struct RegisterOverride {
	Override entry;
	RegisterOverride(const char* name, const void* function, uint32_t slots, uint32_t args_bytes, Shape shape, uint32_t early = 0, Appended appended = {}, bool hands_on = false, const Tail* tail = nullptr, bool planned = false)
		: entry{name, function, slots, args_bytes, shape, early, appended, hands_on, tail, planned, overrides} {
		overrides = &entry;
	}
};

}  // namespace lw_cuda
