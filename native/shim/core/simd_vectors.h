// Collectives of vectors, element by element. Comes after a target's simd.h, whose scalar functions it calls.
#pragma once
#include "native/shim/core/vectors.h"

namespace metal {

#define MSL_EACH(name) \
	template <typename T, int N> \
	MSL_FN vec<T, N> name(vec<T, N> v) { \
		for (int i = 0; i < N; i++) v[i] = name(v[i]); \
		return v; \
	}
#define MSL_EACH_LANE(name) \
	template <typename T, int N> \
	MSL_FN vec<T, N> name(vec<T, N> v, ushort lane) { \
		for (int i = 0; i < N; i++) v[i] = name(v[i], lane); \
		return v; \
	}
MSL_EACH(simd_sum)
MSL_EACH(simd_product)
MSL_EACH(simd_max)
MSL_EACH(simd_min)
MSL_EACH(simd_and)
MSL_EACH(simd_or)
MSL_EACH(simd_xor)
MSL_EACH(simd_prefix_inclusive_sum)
MSL_EACH(simd_prefix_exclusive_sum)
MSL_EACH_LANE(simd_shuffle)
MSL_EACH_LANE(simd_shuffle_xor)
MSL_EACH_LANE(simd_shuffle_down)
MSL_EACH_LANE(simd_shuffle_up)
MSL_EACH_LANE(simd_broadcast)
#undef MSL_EACH_LANE
#undef MSL_EACH

template <typename T>
MSL_FN T simd_broadcast_first(T v) {
	return simd_broadcast(v, 0);
}

}  // namespace metal
