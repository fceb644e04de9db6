// Floats as unsigned words of the same order, so that comparing needs no float arithmetic and NaN has a place: below
// all numbers. Equal floats have equal words (-0 counts as 0). The greatest of a threadgroup and where it stands.
#pragma once
#include "kernels/shared/metal/base.h"

constant constexpr uint NAN_ORDER = 0;
constant constexpr uint LOWEST_ORDER = 0x007fffff;    // -infinity
constant constexpr uint GREATEST_ORDER = 0xff7fffff;  // the greatest finite float
constant constexpr uint NO_INDEX = 0xffffffff;

inline uint order_of(float x) {
	const uint u = as_type<uint>(x);
	if ((u & 0x7fffffff) > 0x7f800000) return NAN_ORDER;
	if (u == 0x80000000) return 0x80000000;
	return u >> 31 ? ~u : u | 0x80000000;
}
inline float of_order(uint order) {
	return as_type<float>(order >> 31 ? order & 0x7fffffff : ~order);
}

// The greatest order seen and the index of its first appearance; indices come ascending.
struct Best {
	uint order, at;
	void see(uint o, uint i) {
		if (o > order) {
			order = o;
			at = i;
		}
	}
};
inline Best no_best() {
	Best b;
	b.order = NAN_ORDER;
	b.at = NO_INDEX;
	return b;
}

inline Best simd_best(Best b) {
	Best r;
	r.order = simd_max(b.order);
	r.at = simd_min(b.order == r.order ? b.at : NO_INDEX);
	return r;
}
// The best of all threads; each gets it. `slots` has two places a simdgroup and is free again behind a barrier.
inline Best threadgroup_best(Best b, threadgroup uint* slots, uint lane, uint sg, uint simdgroups) {
	b = simd_best(b);
	if (lane == 0) {
		slots[2 * sg] = b.order;
		slots[2 * sg + 1] = b.at;
	}
	threadgroup_barrier(mem_flags::mem_threadgroup);
	b = no_best();
	if (lane < simdgroups) {
		b.order = slots[2 * lane];
		b.at = slots[2 * lane + 1];
	}
	return simd_best(b);
}

// Takes every float as it is.
struct EveryFloat {
	static inline uint order(float x) { return order_of(x); }
};
// Takes +inf for the greatest finite float, and NaN for -inf.
struct FiniteOrLowest {
	static inline uint order(float x) { return max(min(order_of(x), GREATEST_ORDER), LOWEST_ORDER); }
};

// The best of a thread's part of x[0..n-1], by vectors where memory is aligned for them: x is `offset` floats behind a
// multiple of 16 bytes.
template <typename TAKEN>
inline Best best_of(device const float* x, size_t offset, uint n, uint tid, uint threads) {
	Best best = no_best();
	const uint odd = uint(offset) & 3, head = min(odd == 0 ? 0 : 4 - odd, n);
	if (tid < head) best.see(TAKEN::order(x[tid]), tid);
	device const float4* v = (device const float4*)(x + head);
	const uint vectors = (n - head) / 4;
	for (uint i = tid; i < vectors; i += threads) {
		const float4 f = v[i];
		const uint at = head + 4 * i;
		best.see(TAKEN::order(f.x), at);
		best.see(TAKEN::order(f.y), at + 1);
		best.see(TAKEN::order(f.z), at + 2);
		best.see(TAKEN::order(f.w), at + 3);
	}
	const uint rest = head + 4 * vectors + tid;
	if (rest < n) best.see(TAKEN::order(x[rest]), rest);
	return best;
}
