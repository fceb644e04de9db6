// How a host finds translated kernels: by name, each with one pointer a slot and the argument struct as parameters.
#pragma once
#include <cstdint>

namespace lw_cuda {

struct Kernel {
	const char* name;
	const void* function;  // for cudaLaunchKernel: pointers in the order of the slots, then the argument struct
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

}  // namespace lw_cuda
