// What kernels of every kind take: a warp's sum and the logistic function with the bits of the translated kernels, and
// hints about memory that an earlier record may yet write.
#pragma once
#include <cstdint>

namespace lw_cuda {

constexpr uint32_t WARP = 32;

__device__ __forceinline__ float sigmoid(float x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, expf(-x))); }
__device__ __forceinline__ float silu(float x) { return __fdiv_rn(x, __fadd_rn(1.0f, expf(-x))); }

// In the order of simd_sum.
__device__ __forceinline__ float sum_of_lanes(float v) {
#pragma unroll
	for (uint32_t d = WARP / 2; d; d /= 2) v = __fadd_rn(v, __shfl_xor_sync(~0u, v, d));
	return v;
}

// Words that another record may write or read meanwhile: as a whole, in the second-level cache.
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t* p) {
	uint32_t v;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}
__device__ __forceinline__ void store_relaxed(uint32_t* p, uint32_t v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

// The line at p into the second-level cache alone, where what an earlier record writes stays true, and its page into the
// tables of addresses: may come before the wait for that record.
__device__ __forceinline__ void prefetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory"); }

}  // namespace lw_cuda
