// Kernels between plays (control.h).
#include "native/cuda/control.h"
#include "native/gen/abi.h"
#include "native/shim/cuda/launch.h"

namespace lw {

namespace {

__global__ void go_on(cudaGraphConditionalHandle handle, const uint32_t* step) {
	cudaGraphSetConditional(handle, step[LW_STEP_HALT] == LW_HALT_RUNNING);
}

__global__ void played(const uint32_t* step, uint32_t* count, cuda_progress* progress) {
	lw_cuda::wait_for_previous();
	volatile cuda_progress* p = progress;
	if (step) {
		p->produced = step[LW_STEP_PRODUCED];
		p->halted = step[LW_STEP_HALT];
	}
	__threadfence_system();
	p->played = ++*count;
}

__global__ void stamp(unsigned long long* at) {
	lw_cuda::wait_for_previous();
	lw_cuda::stamp_end(at);
}

}  // namespace

const void* go_on_kernel() { return reinterpret_cast<const void*>(go_on); }
const void* played_kernel() { return reinterpret_cast<const void*>(played); }
const void* stamp_kernel() { return reinterpret_cast<const void*>(stamp); }

}  // namespace lw
