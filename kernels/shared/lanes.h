// Rearranging lanes: pairs of neighbours apart, one value to a run of lanes, and sums of neighbours.
#pragma once
#include <utility>

#include "kernels/shared/vec.h"

#if defined(__clang__)
#define LW_UNROLL _Pragma("unroll")
#else
#define LW_UNROLL _Pragma("GCC unroll 16")
#endif

namespace LW_CPU_NAMESPACE {

typedef std::make_integer_sequence<int, LANES> Lanes;

template <int FROM, class V, int... I> static inline V pick_alternate(V a, V b, std::integer_sequence<int, I...>) {
	return __builtin_shufflevector(a, b, (2 * I + FROM)...);
}
// The lanes with even (odd) number of a, then those of b.
static inline vf even_lanes(vf a, vf b) { return pick_alternate<0>(a, b, Lanes()); }
static inline vf odd_lanes(vf a, vf b) { return pick_alternate<1>(a, b, Lanes()); }

// s[i] = s[2i] + s[2i+1] for i < n / 2; returns n / 2. Needs room for n + 2 * LANES floats; zeros follow the sums.
static inline uint32_t fold_pairs(float* s, uint32_t n) {
	store(s + n, zero());
	store(s + n + LANES, zero());
	for (uint32_t i = 0; i < n / 2; i += LANES) {
		vf a = load(s + 2 * i), b = load(s + 2 * i + LANES);
		store(s + i, even_lanes(a, b) + odd_lanes(a, b));
	}
	store(s + n / 2, zero());
	return n / 2;
}

// Lane l gets v[(first + l) >> shift]: each value to 2^shift lanes.
static inline vf repeat_lanes(vf v, uint32_t first, int shift) {
#if defined(__AVX512F__)
	const vu at = (vu{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + first) >> uint32_t(shift);
	// maskz, because GCC 12 takes the plain form for a use of something uninitialised.
	return (vf)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)at, (__m512)v);
#elif defined(__AVX2__)
	const vu at = (vu{0, 1, 2, 3, 4, 5, 6, 7} + first) >> uint32_t(shift);
	return (vf)_mm256_permutevar8x32_ps((__m256)v, (__m256i)at);
#else
	return vf{v[first >> shift], v[(first + 1) >> shift], v[(first + 2) >> shift], v[(first + 3) >> shift]};
#endif
}

}  // namespace LW_CPU_NAMESPACE
