// Kernels that are of no tape: whether a play of a run goes on, that it has ended, and what time it is.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace lw {

// In memory of the host, written by the device.
struct cuda_progress {
	uint32_t played;    // plays of the tape since it was loaded
	uint32_t produced;  // the step block's words after the last of them
	uint32_t halted;
};

// (cudaGraphConditionalHandle handle, const uint32_t* step): true while the step block says that its run goes on.
const void* go_on_kernel();
// (const uint32_t* step or null, uint32_t* count in device memory, cuda_progress* progress): one play more.
const void* played_kernel();
// (unsigned long long* at): nanoseconds of the device's clock.
const void* stamp_kernel();

}  // namespace lw
