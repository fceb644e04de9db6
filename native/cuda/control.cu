// Kernels between plays (control.h).
#include "native/cuda/control.h"
#include "native/gen/abi.h"
#include "native/shim/cuda/launch.h"

namespace lw {

namespace {

__global__ void played(const uint32_t* step, volatile uint32_t* seen, uint32_t* count, volatile uint32_t* plays, cudaGraphConditionalHandle repeat, uint32_t* left) {
	lw_cuda::wait_for_previous();
	if (step) seen[threadIdx.x] = step[threadIdx.x];
	__threadfence_system();
	__syncthreads();
	if (threadIdx.x > 0) return;
	*plays = ++*count;
	if (left) cudaGraphSetConditional(repeat, --*left > 0 && !(step && step[LW_STEP_HALT] != LW_HALT_RUNNING));
}

__global__ void stamp(unsigned long long* at) {
	lw_cuda::wait_for_previous();
	lw_cuda::stamp_end(at);
}

}  // namespace

const void* played_kernel() { return reinterpret_cast<const void*>(played); }
const void* stamp_kernel() { return reinterpret_cast<const void*>(stamp); }

}  // namespace lw
