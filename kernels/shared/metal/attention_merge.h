// The merging of the blocks of a row and head, a thread a dim: what attn_merge and attn_merge_gate share.
// Lanes take the stats of SIMD blocks at a time: the maxima up to each block are a prefix maximum, which no order of
// lanes changes.
#pragma once
#include "kernels/shared/metal/attention.h"

constant constexpr uint MERGE_RUN = 8;  // blocks behind the last SIMD that are under way together

// Maximum over this lane and those before it.
inline float prefix_max(float v, uint lane) {
	LW_UNROLL
	for (uint d = 1; d < SIMD; d *= 2) {
		const float other = simd_shuffle_up(v, d);
		v = lane >= d ? max(v, other) : v;
	}
	return v;
}

// N partials from block `first` of those that lanes have the factors of; behind the last one stands the last one again.
template <uint N>
inline void load_partials(device const float* part, uint first, uint count, uint dim, thread float* x) {
	LW_UNROLL
	for (uint b = 0; b < N; b++) x[b] = part[size_t(min(first + b, count - 1)) * dim];
}
template <uint N>
inline void add_partials(const thread float* x, uint first, float2 factors, float block_sum, thread float& result, thread float& sum) {
	LW_UNROLL
	for (uint b = 0; b < N; b++) {
		// Blocks behind the last one have factors 1 and 0.
		const float2 f = float2(simd_broadcast(factors.x, first + b), simd_broadcast(factors.y, first + b));
		result = attn_add(result, x[b], f);
		sum = attn_sum(sum, simd_broadcast(block_sum, first + b), f);
	}
}

// One dim of a row and head, whose first partial is at `part`.
inline float merge_blocks(device const float* part, device const float* stat, uint blocks, uint dim, uint lane) {
	float result = 0.0f, most = ATTN_LOWEST, sum = 0.0f;
	for (uint base = 0; base < blocks; base += SIMD) {
		const uint count = min(blocks - base, SIMD);
		device const float* from = part + size_t(base) * dim;
		// All of them under way before anything waits for the stats.
		float x[SIMD];
		if (count == SIMD) load_partials<SIMD>(from, 0, count, dim, x);
		else load_partials<MERGE_RUN>(from, 0, count, dim, x);
		const float block_sum = lane < count ? stat[(base + lane) * 2 + 1] : 0.0f;
		const float block_max = lane < count ? attn_block_max(stat[(base + lane) * 2], block_sum) : ATTN_LOWEST;
		const float top = max(most, prefix_max(block_max, lane));
		const float previous = simd_shuffle_up(top, 1);
		const float2 f = attn_factors(lane == 0 ? most : previous, top, block_max, block_sum);
		most = simd_broadcast(top, SIMD - 1);
		if (count == SIMD) {
			add_partials<SIMD>(x, 0, f, block_sum, result, sum);
		} else {
			for (uint run = 0; run < count; run += MERGE_RUN) {
				if (run > 0) load_partials<MERGE_RUN>(from, run, count, dim, x);
				add_partials<MERGE_RUN>(x, run, f, block_sum, result, sum);
			}
		}
	}
	return result * attn_inverse(sum);
}

// Dim d of row and head t = row * qHeads + head over the blocks that hold keys 0 .. pos + row. All lanes of a simdgroup
// come here with the same t.
template <typename ARGS>
inline float merged(device const float* partial, device const float* stats, device const uint* step,
                    const constant ARGS& a, uint t, uint d, uint lane) {
	const ulong keys = keys_seen(step[LW_STEP_POS], t / a.q_heads, ulong(a.blocks) * LW_ATTN_BLOCK);
	const uint blocks = uint((keys + LW_ATTN_BLOCK - 1) / LW_ATTN_BLOCK);
	const size_t first = size_t(t) * a.blocks;
	return merge_blocks(partial + first * a.head_dim + d, stats + first * 2, blocks, a.head_dim, lane);
}
