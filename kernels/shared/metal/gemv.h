// How the ops of gemv's kind share out their work. A threadgroup does a tile of TILE columns, each of its simdgroups
// COLUMNS of them, for a chunk of up to CHUNK_ROWS rows. Chunks of one tile are neighbours in the grid, so that its
// weights are read from memory once. Four rows are what registers hold (about 16 sums, 16 dots of a group, 16 codes and
// 16 words of weights a lane) without fewer threadgroups at a time.
#pragma once
#include "kernels/shared/metal/dot.h"

constant constexpr uint GEMV_THREADS = 64;
static_assert(LW_THREADS_gemv == GEMV_THREADS, "the launch of op.ts");
static_assert(LW_THREADS_gemv_add == GEMV_THREADS, "the launch of op.ts");
static_assert(LW_THREADS_norm_gemv == GEMV_THREADS, "the launch of op.ts");
constant constexpr uint TILE = COLUMNS * (GEMV_THREADS / SIMD);
constant constexpr uint CHUNK_ROWS = 4;

inline uint tiles_of(uint out) { return (out + TILE - 1) / TILE; }

// What threadgroup `group` does: a tile, and rows first .. first + rows - 1; none where rows is 0.
struct TileChunk {
	uint tile, first, rows;
};
inline TileChunk tile_chunk(uint group, uint rows) {
	// As even as can be: 5 rows are 3 and 2.
	const uint chunks = (rows + CHUNK_ROWS - 1) / CHUNK_ROWS, each = (rows + chunks - 1) / chunks;
	const uint first = min(group % chunks * each, rows);
	return TileChunk{group / chunks, first, min(each, rows - first)};
}

// Of the sums of R rows by COLUMNS columns, the one that a lane gets from tile_sum, and whether it is to store it.
template <uint R>
struct LaneSum {
	// Values that sum_lanes takes: a power of two.
	static constant constexpr uint count = COLUMNS * (R == 3 ? 4 : R);
	static constant constexpr uint lanes = SIMD / count;
	static inline uint row(uint lane) { return lane / lanes / COLUMNS; }
	static inline uint column(uint lane) { return lane / lanes % COLUMNS; }
	static inline bool owner(uint lane, uint last) { return lane % lanes == 0 && row(lane) < R && column(lane) <= last; }
};
template <uint R, typename F, typename X>
inline float tile_sum(thread const WeightRow<F>& w, uint last, thread X& x, uint in_dim, uint lane) {
	float sums[LaneSum<R>::count] = {};
	add_lane_dots_of<R>(w, last, x, in_dim, lane, sums);
	return sum_lanes<LaneSum<R>::count>(sums, lane);
}

// R rows of x against rows 0..last of w, stored or added; y: the first of its columns in the first of its rows.
template <uint R, bool ADD, typename F>
inline void multiply(thread const WeightRow<F>& w, uint last, device const float* x, uint in_dim, device float* y,
                     uint y_stride, uint lane) {
	PlainRows rows = {x, in_dim};
	const float sum = tile_sum<R>(w, last, rows, in_dim, lane);
	if (!LaneSum<R>::owner(lane, last)) return;
	device float* to = y + size_t(LaneSum<R>::row(lane)) * y_stride + LaneSum<R>::column(lane);
	*to = ADD ? *to + sum : sum;
}
template <bool ADD, typename F>
inline void multiply_chunk(thread const WeightRow<F>& w, uint last, device const float* x, uint rows, uint in_dim,
                           device float* y, uint y_stride, uint lane) {
	if (rows == 1) multiply<1, ADD>(w, last, x, in_dim, y, y_stride, lane);
	else if (rows == 2) multiply<2, ADD>(w, last, x, in_dim, y, y_stride, lane);
	else if (rows == 3) multiply<3, ADD>(w, last, x, in_dim, y, y_stride, lane);
	else multiply<4, ADD>(w, last, x, in_dim, y, y_stride, lane);
}
