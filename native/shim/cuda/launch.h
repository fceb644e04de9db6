// What begins and ends every CUDA kernel, translated or written by hand.
#pragma once
#include <cstdint>

namespace lw_cuda {

// Until the records before this one have finished and what they wrote can be seen; then the next record may become
// resident beside this one, as all of its thread blocks are. Sooner, the next one's would find room on some multiprocessors
// only, and two of them go to one. Every thread of every kernel comes here before it touches what the record before it may
// have written. What still earlier records wrote is there from the kernel's start, as the record before this one has waited
// for them, unless it lets the next one begin: a kernel may read its weights sooner, and, past the first-level cache, what its
// override names (registry.h).
// Devices before Hopper start a record when the one before it has ended.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Lets the next record become resident at once, and read early what neither this one nor those that it waits for write; its
// override says so. For small records, on whose way to the next one little else is done.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
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
