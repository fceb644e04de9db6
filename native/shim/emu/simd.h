// Collectives of a simdgroup, and barriers, over the emulator's meeting points: every lane hands one value in, the
// last one to come works out what each gets.
#pragma once
#include "native/emu/simt.h"
#include "native/shim/core/msl_core.h"

namespace metal {

// Lanes that meet in different ones of these have diverged.
enum simd_operation : uint32_t {
	OP_SUM = 1,
	OP_PRODUCT,
	OP_MAX,
	OP_MIN,
	OP_AND,
	OP_OR,
	OP_XOR,
	OP_SHUFFLE,
	OP_SHUFFLE_XOR,
	OP_SHUFFLE_DOWN,
	OP_SHUFFLE_UP,
	OP_BROADCAST,
	OP_PREFIX_INCLUSIVE,
	OP_PREFIX_EXCLUSIVE,
	OP_BALLOT,
	OP_ANY,
	OP_ALL,
	OP_MATRIX_LOAD,
	OP_MATRIX_STORE,
	OP_MATRIX_MULTIPLY,
};

template <typename T>
inline uint64_t pack_lane(T v) {
	static_assert(sizeof v <= 8, "a lane hands in at most 8 bytes at a time");
	uint64_t bits = 0;
	memcpy(&bits, &v, sizeof v);
	return bits;
}
template <typename T>
inline T unpack_lane(uint64_t bits) {
	T v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

struct lane_add {
	template <typename T>
	T operator()(T a, T b) const { return T(a + b); }
};
struct lane_multiply {
	template <typename T>
	T operator()(T a, T b) const { return T(a * b); }
};
struct lane_max {
	template <typename T>
	T operator()(T a, T b) const { return metal::max(a, b); }
};
struct lane_min {
	template <typename T>
	T operator()(T a, T b) const { return metal::min(a, b); }
};
struct lane_and {
	template <typename T>
	T operator()(T a, T b) const { return T(a & b); }
};
struct lane_or {
	template <typename T>
	T operator()(T a, T b) const { return T(a | b); }
};
struct lane_xor {
	template <typename T>
	T operator()(T a, T b) const { return T(a ^ b); }
};

// Butterfly order, as hardware does: a float sum has the bits that the CUDA target's has. Without all 32 lanes, in
// order.
template <typename T, typename F>
SIMT_RUNTIME void reduce_lanes(uint64_t* lanes, uint32_t mask) {
	F combine;
	T a[32];
	if (mask == 0xffffffffu) {
		for (int i = 0; i < 32; i++) a[i] = unpack_lane<T>(lanes[i]);
		for (int d = 16; d > 0; d >>= 1)
			for (int i = 0; i < d; i++) a[i] = combine(a[i], a[i + d]);
	} else {
		bool first = true;
		for (int i = 0; i < 32; i++) {
			if (!(mask >> i & 1)) continue;
			T x = unpack_lane<T>(lanes[i]);
			a[0] = first ? x : combine(a[0], x);
			first = false;
		}
	}
	lanes[0] = pack_lane(a[0]);
}

// In doubling steps, as the CUDA target does.
template <typename T>
SIMT_RUNTIME void prefix_lanes(uint64_t* lanes, uint32_t mask) {
	T a[32];
	for (int i = 0; i < 32; i++) a[i] = mask >> i & 1 ? unpack_lane<T>(lanes[i]) : T(0);
	for (int d = 1; d < 32; d <<= 1)
		for (int i = 31; i >= d; i--) a[i] = T(a[i] + a[i - d]);
	for (int i = 0; i < 32; i++) lanes[i] = pack_lane(a[i]);
}
template <typename T>
SIMT_RUNTIME void prefix_before_lanes(uint64_t* lanes, uint32_t mask) {
	prefix_lanes<T>(lanes, mask);
	for (int i = 31; i > 0; i--) lanes[i] = lanes[i - 1];
	lanes[0] = pack_lane(T(0));
}

SIMT_RUNTIME inline void ballot_lanes(uint64_t* lanes, uint32_t mask) {
	uint64_t votes = 0;
	for (int i = 0; i < 32; i++)
		if ((mask >> i & 1) && lanes[i]) votes |= 1ull << i;
	lanes[0] = votes;
}
SIMT_RUNTIME inline void all_lanes(uint64_t* lanes, uint32_t mask) {
	ballot_lanes(lanes, mask);
	lanes[0] = lanes[0] == mask;
}

#define MSL_REDUCTION(name, operation, combine) \
	template <typename T> \
	inline T name(T v) { \
		return unpack_lane<T>(simt::exchange(pack_lane(v), operation, 0, reduce_lanes<T, combine>)); \
	}
MSL_REDUCTION(simd_sum, OP_SUM, lane_add)
MSL_REDUCTION(simd_product, OP_PRODUCT, lane_multiply)
MSL_REDUCTION(simd_max, OP_MAX, lane_max)
MSL_REDUCTION(simd_min, OP_MIN, lane_min)
MSL_REDUCTION(simd_and, OP_AND, lane_and)
MSL_REDUCTION(simd_or, OP_OR, lane_or)
MSL_REDUCTION(simd_xor, OP_XOR, lane_xor)
#undef MSL_REDUCTION

template <typename T>
inline T simd_shuffle(T v, ushort lane) {
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_SHUFFLE, lane));
}
template <typename T>
inline T simd_shuffle_xor(T v, ushort mask) {
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_SHUFFLE_XOR, simt::lane() ^ mask));
}
// Lanes without a partner keep their own value.
template <typename T>
inline T simd_shuffle_down(T v, ushort delta) {
	const uint lane = simt::lane();
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_SHUFFLE_DOWN, lane + delta < 32 ? lane + delta : lane));
}
template <typename T>
inline T simd_shuffle_up(T v, ushort delta) {
	const uint lane = simt::lane();
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_SHUFFLE_UP, lane >= delta ? lane - delta : lane));
}
template <typename T>
inline T simd_broadcast(T v, ushort lane) {
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_BROADCAST, lane));
}
template <typename T>
inline T simd_prefix_inclusive_sum(T v) {
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_PREFIX_INCLUSIVE, simt::lane(), prefix_lanes<T>));
}
template <typename T>
inline T simd_prefix_exclusive_sum(T v) {
	return unpack_lane<T>(simt::exchange(pack_lane(v), OP_PREFIX_EXCLUSIVE, simt::lane(), prefix_before_lanes<T>));
}

inline simd_vote simd_ballot(bool b) {
	return simd_vote(simt::exchange(b, OP_BALLOT, 0, ballot_lanes));
}
inline bool simd_any(bool b) {
	return simt::exchange(b, OP_ANY, 0, ballot_lanes) != 0;
}
inline bool simd_all(bool b) {
	return simt::exchange(b, OP_ALL, 0, all_lanes) != 0;
}

inline void threadgroup_barrier(mem_flags) { simt::tg_barrier(); }
inline void simdgroup_barrier(mem_flags) { simt::sg_barrier(); }

// Programmatic dependent launch is CUDA's.

}  // namespace metal
