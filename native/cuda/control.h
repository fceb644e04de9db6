// Kernels that are of no tape: that a play has ended and whether another comes, and what time it is.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace lw {

// (const uint32_t* step or null, uint32_t* seen, uint32_t* count, uint32_t* plays, cudaGraphConditionalHandle repeat,
// uint32_t* left or null), LW_STEP_WORDS threads: one play more. `seen` gets the step block and then `plays` the count, both
// in memory of the host, the others being on the device. With plays `left`, `repeat` becomes true where another is to come.
const void* played_kernel();
// (unsigned long long* at): nanoseconds of the device's clock.
const void* stamp_kernel();

}  // namespace lw
