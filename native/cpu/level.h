// The instruction sets that the CPU kernels are compiled for, one table of kernels each.
#pragma once
#include "native/cpu/kernel.h"

namespace lw {

struct level {
	const char* name;
	bool (*usable)();
	const lw_cpu_kernel* kernels;  // by kernel id
};

// Every level in this library, best first; usable or not.
const level* all_levels(uint32_t* n);

}  // namespace lw
