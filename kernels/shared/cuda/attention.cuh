// Decode attention over a block of f16 keys on matrix units, up to ATTN_HEADS query heads of one key head at a time: what
// attn_split and attn_decode share, so that they give the same bits. Owns neither loads nor the walk over keys.
//
// A matrix instruction multiplies 16 rows at a time: 8 heads twice, for an f32 factor is split into two f16 (hi, and lo
// times 1 / LO_UNIT) whose products are sums of their own. Keys and values are f16 already, so products are exact. The
// instruction cuts off what it adds instead of rounding it, so it adds up few products, and f32 additions the rest: over
// CHUNK dims of a score, over the SLICE keys of a value. A slice has weights relative to its own greatest score, and
// slices make up a block in order.
#pragma once
#include <cuda_fp16.h>

#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"

namespace lw_cuda {

constexpr uint32_t ATTN_HEADS = 8;
constexpr float ATTN_LOWEST = -3.402823466e+38f;
constexpr float LO_UNIT = 1.0f / 2048;
constexpr uint32_t TILES = 4, TILE = 8;  // fragments of scores of a slice, and keys of one
constexpr uint32_t SLICE = TILES * TILE, SLICES = LW_ATTN_BLOCK / SLICE;
constexpr uint32_t CHUNK = 32;  // dims of a key that four lanes load at a time

// Query heads [first, first + count) of tile `tile` of key head kv.
struct HeadTile {
	uint32_t first, count;
};
inline __host__ __device__ uint32_t heads_per_key(uint32_t q_heads, uint32_t kv_heads) { return (q_heads + kv_heads - 1) / kv_heads; }
inline __host__ __device__ uint32_t head_tiles(uint32_t q_heads, uint32_t kv_heads) { return (heads_per_key(q_heads, kv_heads) + ATTN_HEADS - 1) / ATTN_HEADS; }
__device__ __forceinline__ HeadTile head_tile(uint32_t q_heads, uint32_t kv_heads, uint32_t kv, uint32_t tile) {
	const uint32_t each = heads_per_key(q_heads, kv_heads), first = min(each * kv, q_heads), all = min(each, q_heads - first);
	const uint32_t skip = min(tile * ATTN_HEADS, all);
	return {first + skip, min(ATTN_HEADS, all - skip)};
}
// Keys that row r sees: positions 0 .. pos + r, never more than `limit`.
__device__ __forceinline__ uint64_t keys_seen(uint32_t pos, uint32_t r, uint64_t limit) { return min(uint64_t(pos) + r + 1, limit); }

// Before the wait for the record before, which is not one that moves the position: an override names its step block.
__device__ __forceinline__ uint32_t position(const uint32_t* step) { return __ldcg(step + LW_STEP_POS); }

// d += a b: 16 x 16 by 16 x 8.
__device__ __forceinline__ void multiply(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// One head's pair of sums from those of its two halves.
__device__ __forceinline__ float2 joined(const float (&d)[4]) { return {__fmaf_rn(d[2], LO_UNIT, d[0]), __fmaf_rn(d[3], LO_UNIT, d[1])}; }

__device__ __forceinline__ uint32_t bits_of(half2 v) { return *reinterpret_cast<const uint32_t*>(&v); }
// Two floats as hi and lo.
__device__ __forceinline__ void split(float x, float y, uint32_t& hi, uint32_t& lo) {
	const half2 h = __floats2half2_rn(x, y);
	const float2 back = __half22float2(h);
	hi = bits_of(h);
	lo = bits_of(__floats2half2_rn(__fmul_rn(__fsub_rn(x, back.x), 1.0f / LO_UNIT), __fmul_rn(__fsub_rn(y, back.y), 1.0f / LO_UNIT)));
}

// N dims of a query, of a chunk that LANES lanes side by side share, as hi and lo of q / 2^e with 2^e, which is returned,
// about the greatest of the chunk.
template <uint32_t LANES, uint32_t N> __device__ __forceinline__ float split_query(const float (&x)[N], uint32_t (&hi)[N / 2], uint32_t (&lo)[N / 2]) {
	static_assert(LANES * N == CHUNK, "a chunk");
	float most = 0.0f;
#pragma unroll
	for (uint32_t n = 0; n < N; n++) most = fmaxf(most, fabsf(x[n]));
#pragma unroll
	for (uint32_t d = 1; d < LANES; d *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
	const uint32_t power = min(max(__float_as_uint(most) & 0x7f800000u, 1u << 23), 253u << 23);
	const float inverse = __uint_as_float((254u << 23) - power);
#pragma unroll
	for (uint32_t n = 0; n < N / 2; n++) split(__fmul_rn(x[2 * n], inverse), __fmul_rn(x[2 * n + 1], inverse), hi[n], lo[n]);
	return __uint_as_float(power);
}
// What a chunk's 8 dims of a lane, of query and key, add to the scores of two keys.
__device__ __forceinline__ float2 chunk_score(const uint32_t (&hi)[4], const uint32_t (&lo)[4], uint4 key, float power) {
	float d[4] = {};
	multiply(d, hi[0], lo[0], hi[1], lo[1], key.x, key.y);
	multiply(d, hi[2], lo[2], hi[3], lo[3], key.z, key.w);
	const float2 x = joined(d);
	return {__fmul_rn(x.x, power), __fmul_rn(x.y, power)};
}

// The product of a slice's weights with a dim, or with ones, which is their sum. Of the values of keys 2 t and 2 t + 1 of
// a tile, b[tile] has the dim.
__device__ __forceinline__ float2 slice_product(const uint32_t (&hi)[TILES], const uint32_t (&lo)[TILES], const uint32_t (&b)[TILES]) {
	float d[4] = {};
	multiply(d, hi[0], lo[0], hi[1], lo[1], b[0], b[1]);
	multiply(d, hi[2], lo[2], hi[3], lo[3], b[2], b[3]);
	return joined(d);
}
__device__ __forceinline__ float slice_sum(const uint32_t (&hi)[TILES], const uint32_t (&lo)[TILES]) {
	constexpr uint32_t ONES = 0x3c003c00;
	return slice_product(hi, lo, {ONES, ONES, ONES, ONES}).x;
}
// Keys of a slice whose values are rows i of the eight that a lane loads, and element `at` of two such rows.
__device__ __forceinline__ uint32_t value_key(uint32_t i, uint32_t t) { return i / 2 * TILE + 2 * t + i % 2; }
__device__ __forceinline__ uint32_t value_pair(uint32_t low, uint32_t high, uint32_t at) { return __byte_perm(low, high, at % 2 ? 0x7632 : 0x5410); }

// Dim f of four that a lane has of the values of eight keys.
struct ValuePairs {
	uint32_t of[TILES];
};
__device__ __forceinline__ ValuePairs value_pairs(const uint2 (&value)[2 * TILES], uint32_t f) {
	ValuePairs b;
#pragma unroll
	for (uint32_t i = 0; i < TILES; i++) b.of[i] = f < 2 ? value_pair(value[2 * i].x, value[2 * i + 1].x, f) : value_pair(value[2 * i].y, value[2 * i + 1].y, f);
	return b;
}

// The greatest over all lanes.
__device__ __forceinline__ float greatest_of_lanes(float v) {
	const uint32_t bits = __float_as_uint(v), ordered = __reduce_max_sync(~0u, bits & 0x80000000u ? ~bits : bits | 0x80000000u);
	return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

// A key's weight, as hi and lo, and the greatest score of its slice, whose keys the lanes have.
struct KeyWeight {
	uint16_t hi, lo;
	float max;
};
__device__ __forceinline__ KeyWeight weight_of(float score, bool seen) {
	const float max = greatest_of_lanes(seen ? fmaxf(score, ATTN_LOWEST) : ATTN_LOWEST);
	uint32_t hi, lo;
	split(expf(seen ? __fsub_rn(score, max) : -INFINITY), 0.0f, hi, lo);
	return {uint16_t(hi), uint16_t(lo), max};
}

// A head's maximum over the slices of a block, and what each of them counts in the block.
struct Slices {
	float max = ATTN_LOWEST, factor[SLICES];

	// Of what each slice has.
	__device__ float sum(const float (&of_slice)[SLICES]) const {
		float sum = 0.0f;
#pragma unroll
		for (uint32_t w = 0; w < SLICES; w++) sum = __fmaf_rn(of_slice[w], factor[w], sum);
		return sum;
	}
};

}  // namespace lw_cuda
