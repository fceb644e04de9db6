// Probability as whole numbers: relative weights in units of 2^-bits, so that sums are exact in any order and no two
// threads can disagree about one. Sums of them over simdgroups and threadgroups.
#pragma once
#include "kernels/shared/metal/base.h"

// x * 2^bits, rounded to nearest; 0 <= x <= 1, bits < 64.
inline ulong mass_of(float x, uint bits) {
	const uint u = as_type<uint>(x), m = (u & 0x7fffff) | 0x800000;
	const int shift = int(u >> 23) - 150 + int(bits);
	if (shift >= 0) return ulong(m) << shift;
	return shift < -24 ? 0 : (ulong(m) + (1ul << (-shift - 1))) >> -shift;
}

// Whole part of m * f / 2^32; m < 2^63.
inline ulong mass_times(ulong m, uint f, thread bool& whole) {
	const ulong low = (m & 0xffffffff) * f;
	whole = (low & 0xffffffff) == 0;
	return (m >> 32) * f + (low >> 32);
}

inline ulong simd_mass(ulong m) {
	for (uint d = 1; d < SIMD; d *= 2) {
		const uint low = simd_shuffle_xor(uint(m), ushort(d)), high = simd_shuffle_xor(uint(m >> 32), ushort(d));
		m += ulong(high) << 32 | low;
	}
	return m;
}
// The sum up to and with this lane.
inline ulong simd_prefix_mass(ulong m, uint lane) {
	for (uint d = 1; d < SIMD; d *= 2) {
		const uint low = simd_shuffle_up(uint(m), ushort(d)), high = simd_shuffle_up(uint(m >> 32), ushort(d));
		if (lane >= d) m += ulong(high) << 32 | low;
	}
	return m;
}
