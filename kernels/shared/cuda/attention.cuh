// Decode attention over one block of f16 keys on matrix units: up to ATTN_HEADS query heads of one key head, for R rows
// that share every load of keys and values. Owns no walk over blocks.
//
// A matrix instruction multiplies 16 rows at a time: 8 heads twice, for an f32 factor is split into two f16 (hi, and lo
// times 1 / LO_UNIT) whose products are sums of their own. Keys and values are f16 already, so products are exact. The
// instruction cuts off what it adds instead of rounding it, so it adds up few products, and f32 additions the rest. Each
// row has its own instructions in an order of its own: its bits do not depend on the rows beside it.
//
// A warp takes 32 keys through scores, weights and values. Which dim a lane's fragment holds is free as long as both
// factors agree: lanes load 16 bytes at a time as they lie in the caches. What a row does not see has the weight 0.
#pragma once
#include <cuda_fp16.h>

#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"

namespace lw_cuda {

constexpr uint32_t ATTN_HEADS = 8;
constexpr float ATTN_LOWEST = -3.402823466e+38f;
constexpr float LO_UNIT = 1.0f / 2048;
constexpr uint32_t ATTN_WARPS = 8, ATTN_THREADS = ATTN_WARPS * WARP;
constexpr uint32_t TILES = 4, TILE = 8;  // fragments of scores of a warp, and keys of one
constexpr uint32_t CHUNK = 32;           // dims of a key that four lanes load at a time
constexpr uint32_t GROUP = 64;           // dims of values that eight lanes load at a time
static_assert(LW_ATTN_BLOCK == ATTN_WARPS * TILES * TILE, "a warp has its keys");

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

// A thread block for heads of D dims and up to R rows.
template <uint32_t D_, uint32_t R_> struct AttnForm {
	static constexpr uint32_t D = D_, R = R_, GROUPS = D / GROUP;
	// Of the results of a group of dims, each thread has four dims of this many rows and heads.
	static constexpr uint32_t GROUP_VECTORS = ATTN_HEADS * GROUP / 4, GROUP_RESULTS = (R * GROUP_VECTORS + ATTN_THREADS - 1) / ATTN_THREADS;

	struct Shared {
		// hi and lo; between heads a half of the banks.
		half query[R][2][ATTN_HEADS][D + 32];
		float scale[R][ATTN_HEADS];  // of the products' sums
		float4 max[R][ATTN_HEADS][ATTN_WARPS / 4], sum[R][ATTN_HEADS][ATTN_WARPS / 4];
		// Of groups of dims by turns: four dims stand side by side, those of lane t of a fragment at t, t + 4, ...
		float4 value[2][R][ATTN_WARPS][ATTN_HEADS][GROUP / 4 + 4];
	};
};

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

// Queries of all rows, of which `count(r)` heads from q(r) on are there, as hi and lo of q / 2^e with 2^e about the
// greatest; a warp a head.
template <typename F, typename COUNT, typename Q>
__device__ __forceinline__ void stage_queries(typename F::Shared& s, Q q, COUNT count, float scale, uint32_t warp, uint32_t lane) {
	constexpr uint32_t N = (F::D + 4 * WARP - 1) / (4 * WARP);
	for (uint32_t at = warp; at < F::R * ATTN_HEADS; at += ATTN_WARPS) {
		const uint32_t r = at / ATTN_HEADS, i = at % ATTN_HEADS;
		float4 x[N];
		float most = 0.0f;
#pragma unroll
		for (uint32_t n = 0; n < N; n++) {
			const uint32_t d = 4 * (lane + n * WARP);
			x[n] = i < count(r) && d < F::D ? *reinterpret_cast<const float4*>(q(r) + i * F::D + d) : float4{};
			most = fmaxf(fmaxf(fmaxf(most, fabsf(x[n].x)), fmaxf(fabsf(x[n].y), fabsf(x[n].z))), fabsf(x[n].w));
		}
		const uint32_t power = min(max(__reduce_max_sync(~0u, __float_as_uint(most)) & 0x7f800000u, 1u << 23), 253u << 23);
		const float inverse = __uint_as_float((254u << 23) - power);
#pragma unroll
		for (uint32_t n = 0; n < N; n++) {
			const uint32_t d = 4 * (lane + n * WARP);
			uint2 hi, lo;
			split(x[n].x * inverse, x[n].y * inverse, hi.x, lo.x);
			split(x[n].z * inverse, x[n].w * inverse, hi.y, lo.y);
			if (d >= F::D) continue;
			*reinterpret_cast<uint2*>(&s.query[r][0][i][d]) = hi;
			*reinterpret_cast<uint2*>(&s.query[r][1][i][d]) = lo;
		}
		if (lane == 0) s.scale[r][i] = __uint_as_float(power) * scale;
	}
}

// f(result, r, i, slot): the results of this thread in a group of dims, in row r of head i.
template <typename F, typename CALL> __device__ __forceinline__ void each_of_group(CALL call) {
#pragma unroll
	for (uint32_t e = 0; e < F::GROUP_RESULTS; e++) {
		const uint32_t at = e * ATTN_THREADS + threadIdx.x;
		if (F::R * F::GROUP_VECTORS % ATTN_THREADS == 0 || at < F::R * F::GROUP_VECTORS) call(e, at / F::GROUP_VECTORS, at % F::GROUP_VECTORS / (GROUP / 4), at % (GROUP / 4));
	}
}
__device__ __forceinline__ uint32_t dim_of_slot(uint32_t group, uint32_t slot) { return group * GROUP + slot % 4 * 16 + slot / 4 * 4; }
// f(result, r, i, d): all of them.
template <typename F, typename CALL> __device__ __forceinline__ void each_result(CALL call) {
#pragma unroll
	for (uint32_t group = 0; group < F::GROUPS; group++)
		each_of_group<F>([&](uint32_t e, uint32_t r, uint32_t i, uint32_t slot) { call(group * F::GROUP_RESULTS + e, r, i, dim_of_slot(group, slot)); });
}

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)}; }
__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w)}; }
__device__ __forceinline__ float greatest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
template <typename OP> __device__ __forceinline__ float over_keys(float v, OP op) {
	v = op(v, __shfl_xor_sync(~0u, v, 1));
	return op(v, __shfl_xor_sync(~0u, v, 2));
}

// One block of keys, whose rows start at k and v: `most` of them, of which row r sees seen(r). The queries are staged
// and the threads met. put(result, r, i, d, x): four dims from d on of head i's sum_j exp(s_ij - max_i) v_j, for each
// result of this thread, groups in order; stat_of() then has maximum and sum of weights.
template <typename F, typename SEEN, typename PUT>
__device__ __forceinline__ void attend_block(typename F::Shared& s, const uint8_t* k, const uint8_t* v, uint32_t most, SEEN seen, uint32_t warp, uint32_t lane, PUT put) {
	constexpr uint32_t D = F::D, R = F::R, CHUNKS = D / CHUNK, AHEAD = 3;
	const uint32_t g = lane / 4, t = lane % 4, first = warp * TILES * TILE;
	// Keys behind the last one are the last one again.
	const auto row_of = [&](const uint8_t* rows, uint32_t key) { return rows + size_t(min(first + key, most - 1)) * (D * 2); };

	float2 score[R][TILES] = {};
	if (first < most) {
		const uint4* row[TILES];
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) row[f] = reinterpret_cast<const uint4*>(row_of(k, f * TILE + g)) + t;
		uint4 x[AHEAD + 1][TILES];
#pragma unroll
		for (uint32_t c = 0; c < AHEAD && c < CHUNKS; c++)
#pragma unroll
			for (uint32_t f = 0; f < TILES; f++) x[c][f] = __ldcs(row[f] + 4 * c);
#pragma unroll
		for (uint32_t c = 0; c < CHUNKS; c++) {
			if (c + AHEAD < CHUNKS)
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) x[(c + AHEAD) % (AHEAD + 1)][f] = __ldcs(row[f] + 4 * (c + AHEAD));
#pragma unroll
			for (uint32_t r = 0; r < R; r++) {
				const uint4 hi = *reinterpret_cast<const uint4*>(&s.query[r][0][g][c * CHUNK + 8 * t]);
				const uint4 lo = *reinterpret_cast<const uint4*>(&s.query[r][1][g][c * CHUNK + 8 * t]);
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) {
					const uint4 b = x[c % (AHEAD + 1)][f];
					float d[4] = {};
					multiply(d, hi.x, lo.x, hi.y, lo.y, b.x, b.y);
					multiply(d, hi.z, lo.z, hi.w, lo.w, b.z, b.w);
					score[r][f] = score[r][f] + joined(d);
				}
			}
		}
	}

	// Keys 16 i + 2 t + {0, 1, 8, 9}: as scores become the factors of values where they are.
	uint4 x[8];
	const auto load = [&](uint32_t group) {
		const uint32_t at = (group * GROUP + 8 * g) * 2;
#pragma unroll
		for (uint32_t i = 0; i < 8; i++) x[i] = __ldcs(reinterpret_cast<const uint4*>(row_of(v, i / 4 * 16 + i % 4 / 2 * 8 + 2 * t + i % 2) + at));
	};
	load(0);

#pragma unroll
	for (uint32_t r = 0; r < R; r++) {
		const float scale = s.scale[r][g];
		const uint32_t n = seen(r);
		float max = ATTN_LOWEST;
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) {
			const uint32_t key = first + f * TILE + 2 * t;
			score[r][f] = {__fmul_rn(score[r][f].x, scale), __fmul_rn(score[r][f].y, scale)};
			if (key < n) max = fmaxf(max, score[r][f].x);
			if (key + 1 < n) max = fmaxf(max, score[r][f].y);
		}
		max = over_keys(max, [](float a, float b) { return fmaxf(a, b); });
		if (t == 0) reinterpret_cast<float*>(s.max[r][g])[warp] = max;
	}
	__syncthreads();
	uint32_t hi[R][TILES], lo[R][TILES];
#pragma unroll
	for (uint32_t r = 0; r < R; r++) {
		const uint32_t n = seen(r);
		const float max = fmaxf(greatest(s.max[r][g][0]), greatest(s.max[r][g][1]));
		float sum = 0.0f;
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) {
			const uint32_t key = first + f * TILE + 2 * t;
			const float p = key < n ? expf(__fsub_rn(score[r][f].x, max)) : 0.0f, q = key + 1 < n ? expf(__fsub_rn(score[r][f].y, max)) : 0.0f;
			sum = __fadd_rn(sum, __fadd_rn(p, q));
			split(p, q, hi[r][f], lo[r][f]);
		}
		sum = over_keys(sum, [](float a, float b) { return __fadd_rn(a, b); });
		if (t == 0) reinterpret_cast<float*>(s.sum[r][g])[warp] = sum;
	}

#pragma unroll
	for (uint32_t group = 0; group < F::GROUPS; group++) {
		uint32_t b[8][4];
#pragma unroll
		for (uint32_t f = 0; f < 8; f++)
#pragma unroll
			for (uint32_t i = 0; i < 4; i++) {
				const uint4 &low = x[2 * i], &high = x[2 * i + 1];
				const uint32_t l = f < 2 ? low.x : f < 4 ? low.y : f < 6 ? low.z : low.w, h = f < 2 ? high.x : f < 4 ? high.y : f < 6 ? high.z : high.w;
				b[f][i] = __byte_perm(l, h, f % 2 ? 0x7632 : 0x5410);
			}
		if (group + 1 < F::GROUPS) load(group + 1);
		auto& value = s.value[group % 2];
#pragma unroll
		for (uint32_t r = 0; r < R; r++) {
			float2 o[8];
#pragma unroll
			for (uint32_t f = 0; f < 8; f++) {
				float d[4] = {};
				multiply(d, hi[r][0], lo[r][0], hi[r][1], lo[r][1], b[f][0], b[f][1]);
				multiply(d, hi[r][2], lo[r][2], hi[r][3], lo[r][3], b[f][2], b[f][3]);
				o[f] = joined(d);
			}
			// Fragment f has dims 8 g + f, a lane columns 2 t and 2 t + 1: 16 dims side by side.
			float4* to = value[r][warp][g] + t;
			to[0] = {o[0].x, o[1].x, o[2].x, o[3].x};
			to[4] = {o[4].x, o[5].x, o[6].x, o[7].x};
			to[8] = {o[0].y, o[1].y, o[2].y, o[3].y};
			to[12] = {o[4].y, o[5].y, o[6].y, o[7].y};
		}
		__syncthreads();
		each_of_group<F>([&](uint32_t e, uint32_t r, uint32_t i, uint32_t slot) {
			float4 sum = value[r][0][i][slot];
#pragma unroll
			for (uint32_t w = 1; w < ATTN_WARPS; w++) sum = sum + value[r][w][i][slot];
			put(group * F::GROUP_RESULTS + e, r, i, dim_of_slot(group, slot), sum);
		});
	}
}

template <typename F> __device__ __forceinline__ float2 stat_of(const typename F::Shared& s, uint32_t r, uint32_t i) {
	const float4 a = s.sum[r][i][0], b = s.sum[r][i][1];
	const float2 low = float2{a.x, a.y} + float2{a.z, a.w}, high = float2{b.x, b.y} + float2{b.z, b.w}, all = low + high;
	return {fmaxf(greatest(s.max[r][i][0]), greatest(s.max[r][i][1])), __fadd_rn(all.x, all.y)};
}

// What a warp will read first of a block of keys, of which the cache holds `most`, into the second-level cache, and where
// it lies into the tables of addresses: a hint, which may come before what is there is final.
template <uint32_t D> __device__ __forceinline__ void prefetch_block(const uint8_t* k, const uint8_t* v, uint32_t most, uint32_t warp, uint32_t lane) {
	const size_t row = size_t(min(warp * (TILES * TILE) + lane, most - 1)) * (D * 2);
	prefetch_line(k + row);
	prefetch_line(v + row);
}

// Rows that a thread block takes together. X(head dimension, rows): the forms that there are.
inline constexpr uint32_t attend_rows(uint32_t dim, uint32_t rows) { return rows <= 2 ? rows : dim > 256 ? 2 : 4; }
#define LW_ATTEND_FORMS(X) \
	X(64, 1) X(64, 2) X(64, 4) X(128, 1) X(128, 2) X(128, 4) X(256, 1) X(256, 2) X(256, 4) X(512, 1) X(512, 2)

}  // namespace lw_cuda
