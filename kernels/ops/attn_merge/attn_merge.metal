// o[r,h] = sum_b exp(m_b - M) partial[r,h,b] / sum_b exp(m_b - M) l_b, where (m_b, l_b) = stats[r,h,b] and
// M = max_b m_b, over the blocks b that hold keys 0 .. pos + r, in order.
// A threadgroup does LW_THREADS_attn_merge dims of one row and head: tg = (dims, row * qHeads + head). Lanes take the
// stats of SIMD blocks at a time: the maxima up to each block are a prefix maximum, which no order of lanes changes.
// No threadgroup memory.
#include "kernels/shared/metal/attention.h"

constant constexpr uint AHEAD = 4;  // partials under way at a time

// Maximum over this lane and those before it.
inline float prefix_max(float v, uint lane) {
	LW_UNROLL
	for (uint d = 1; d < SIMD; d *= 2) {
		const float other = simd_shuffle_up(v, d);
		v = lane >= d ? max(v, other) : v;
	}
	return v;
}

// One dim of row and head t, whose first partial is at `part`.
inline float merged(device const float* part, device const float* stat, uint blocks, uint dim, uint lane) {
	float result = 0.0f, most = ATTN_LOWEST, sum = 0.0f;
	for (uint base = 0; base < blocks; base += SIMD) {
		const uint count = min(blocks - base, SIMD);
		const float block_sum = lane < count ? stat[(base + lane) * 2 + 1] : 0.0f;
		const float block_max = lane < count ? attn_block_max(stat[(base + lane) * 2], block_sum) : ATTN_LOWEST;
		const float top = max(most, prefix_max(block_max, lane));
		const float previous = simd_shuffle_up(top, 1);
		const float2 f = attn_factors(lane == 0 ? most : previous, top, block_max, block_sum);
		most = simd_broadcast(top, SIMD - 1);
		for (uint b = 0; b < count; b += AHEAD) {
			float x[AHEAD];
			LW_UNROLL
			for (uint i = 0; i < AHEAD; i++) x[i] = part[size_t(base + min(b + i, count - 1)) * dim];
			// Blocks behind the last one have factors 1 and 0.
			LW_UNROLL
			for (uint i = 0; i < AHEAD; i++) {
				const float2 g = float2(simd_broadcast(f.x, b + i), simd_broadcast(f.y, b + i));
				result = attn_add(result, x[i], g);
				sum = attn_sum(sum, simd_broadcast(block_sum, b + i), g);
			}
		}
	}
	return result * attn_inverse(sum);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_merge)]]
void attn_merge(device const float* partial [[buffer(0)]],
                device const float* stats [[buffer(1)]],
                device const uint* step [[buffer(2)]],
                device float* o [[buffer(3)]],
                constant attn_merge_args& a [[buffer(16)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint tid [[thread_index_in_threadgroup]],
                uint lane [[thread_index_in_simdgroup]]) {
	const uint t = tg.y, d = tg.x * LW_THREADS_attn_merge + tid;
	if (t >= a.rows * a.q_heads) return;
	const ulong keys = keys_seen(step[LW_STEP_POS], t / a.q_heads, ulong(a.blocks) * LW_ATTN_BLOCK);
	const uint blocks = uint((keys + LW_ATTN_BLOCK - 1) / LW_ATTN_BLOCK);
	const size_t first = size_t(t) * a.blocks;
	// The same for all of a simdgroup: head_dim is a multiple of SIMD.
	if (d < a.head_dim)
		o[size_t(t) * a.head_dim + d] = merged(partial + first * a.head_dim + d, stats + first * 2, blocks, a.head_dim, lane);
}
