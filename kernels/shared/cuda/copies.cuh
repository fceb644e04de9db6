// Copies of the asynchronous kind into shared memory, which is given by its address there.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

namespace lw_cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
// 8 bytes of weights, whose neighbours are asked for next.
__device__ __forceinline__ void copy8(uint32_t to, const void* from) {
	asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
// 16 bytes of weights.
__device__ __forceinline__ void copy16(uint32_t to, const void* from) {
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// 16 bytes, or none, which are zeros.
__device__ __forceinline__ void copy16_or_zeros(uint32_t to, const void* from, bool there) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
// Copies since the last end are a group.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all of this thread's groups are there but the last LEFT.
template <uint32_t LEFT> __device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

}  // namespace lw_cuda
