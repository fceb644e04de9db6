// What begins and ends every CUDA kernel, translated or written by hand.
#pragma once
#include <cstdint>

namespace lw_cuda {

// The next record may become resident beside this one. What it reads it reads behind its own wait. Devices before
// Hopper start a record when the one before it has ended.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Until the records before this one have finished and what they wrote can be seen. Every thread of every kernel comes
// here before it touches what a record may have written, or an earlier record could still be running.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// When the kernel's last warp got here, in nanoseconds; without a place for it, nothing. Thread blocks are linear.
__device__ __forceinline__ void stamp_end(unsigned long long* stamp) {
	if (!stamp || threadIdx.x % 32) return;
	unsigned long long now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
	atomicMax(stamp, now);
}

}  // namespace lw_cuda
