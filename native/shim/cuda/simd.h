// Collectives of a warp, and barriers. All 32 lanes take part: kernels call them in uniform control flow only.
#pragma once
#include "native/shim/core/msl_core.h"

namespace metal {

#define MSL_ALL_LANES 0xffffffffu

MSL_FN uint warp_lane() {
	uint lane;
	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

// The integer of T's size, and the register in which a shuffle moves it.
template <int BYTES>
struct lane_bits;
template <>
struct lane_bits<1> {
	typedef uint8_t value;
	typedef unsigned moved;
};
template <>
struct lane_bits<2> {
	typedef uint16_t value;
	typedef unsigned moved;
};
template <>
struct lane_bits<4> {
	typedef uint32_t value;
	typedef unsigned moved;
};
template <>
struct lane_bits<8> {
	typedef uint64_t value;
	typedef unsigned long long moved;
};

#define MSL_SHUFFLE(name, intrinsic) \
	template <typename T> \
	MSL_FN T name(T v, ushort lane) { \
		typedef lane_bits<sizeof(T)> B; \
		typedef typename B::value U; \
		return bitcast<T>((U)intrinsic(MSL_ALL_LANES, (typename B::moved)bitcast<U>(v), lane)); \
	}
MSL_SHUFFLE(simd_shuffle, __shfl_sync)
MSL_SHUFFLE(simd_shuffle_xor, __shfl_xor_sync)
MSL_SHUFFLE(simd_shuffle_down, __shfl_down_sync)
MSL_SHUFFLE(simd_shuffle_up, __shfl_up_sync)
MSL_SHUFFLE(simd_broadcast, __shfl_sync)
#undef MSL_SHUFFLE

// Butterfly order: the emulator's float sums have the same bits.
#define MSL_REDUCTION(name, expression) \
	template <typename T> \
	MSL_FN T name(T a) { \
		_Pragma("unroll") for (int d = 16; d > 0; d >>= 1) { \
			T b = simd_shuffle_xor(a, d); \
			a = T(expression); \
		} \
		return a; \
	}
MSL_REDUCTION(simd_sum, a + b)
MSL_REDUCTION(simd_product, a * b)
MSL_REDUCTION(simd_max, metal::max(a, b))
MSL_REDUCTION(simd_min, metal::min(a, b))
MSL_REDUCTION(simd_and, a & b)
MSL_REDUCTION(simd_or, a | b)
MSL_REDUCTION(simd_xor, a ^ b)
#undef MSL_REDUCTION

// One instruction for 32-bit integers.
MSL_FN uint simd_sum(uint v) { return __reduce_add_sync(MSL_ALL_LANES, v); }
MSL_FN int simd_sum(int v) { return __reduce_add_sync(MSL_ALL_LANES, v); }
MSL_FN uint simd_max(uint v) { return __reduce_max_sync(MSL_ALL_LANES, v); }
MSL_FN int simd_max(int v) { return __reduce_max_sync(MSL_ALL_LANES, v); }
MSL_FN uint simd_min(uint v) { return __reduce_min_sync(MSL_ALL_LANES, v); }
MSL_FN int simd_min(int v) { return __reduce_min_sync(MSL_ALL_LANES, v); }
MSL_FN uint simd_and(uint v) { return __reduce_and_sync(MSL_ALL_LANES, v); }
MSL_FN uint simd_or(uint v) { return __reduce_or_sync(MSL_ALL_LANES, v); }
MSL_FN uint simd_xor(uint v) { return __reduce_xor_sync(MSL_ALL_LANES, v); }

template <typename T>
MSL_FN T simd_prefix_inclusive_sum(T v) {
	const uint lane = warp_lane();
	_Pragma("unroll") for (int d = 1; d < 32; d <<= 1) {
		T below = simd_shuffle_up(v, d);
		if (lane >= d) v = T(v + below);
	}
	return v;
}
template <typename T>
MSL_FN T simd_prefix_exclusive_sum(T v) {
	T below = simd_shuffle_up(simd_prefix_inclusive_sum(v), 1);
	return warp_lane() ? below : T(0);
}

MSL_FN simd_vote simd_ballot(bool b) { return simd_vote(__ballot_sync(MSL_ALL_LANES, b)); }
MSL_FN bool simd_any(bool b) { return __any_sync(MSL_ALL_LANES, b); }
MSL_FN bool simd_all(bool b) { return __all_sync(MSL_ALL_LANES, b); }

MSL_FN void threadgroup_barrier(mem_flags) { __syncthreads(); }
MSL_FN void simdgroup_barrier(mem_flags) { __syncwarp(); }

}  // namespace metal
