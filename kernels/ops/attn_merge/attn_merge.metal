// o[r,h] = sum_b exp(m_b - M) partial[r,h,b] / sum_b exp(m_b - M) l_b, where (m_b, l_b) = stats[r,h,b] and
// M = max_b m_b, over the blocks b that hold keys 0 .. pos + r, in order.
// A threadgroup does LW_THREADS_attn_merge dims of one row and head: tg = (dims, row * qHeads + head).
// No threadgroup memory.
#include "kernels/shared/metal/attention_merge.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_merge)]]
void attn_merge(device const float* partial [[buffer(0)]],
                device const float* stats [[buffer(1)]],
                device const uint* step [[buffer(2)]],
                device float* o [[buffer(3)]],
                constant attn_merge_args& a [[buffer(24)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint tid [[thread_index_in_threadgroup]],
                uint lane [[thread_index_in_simdgroup]]) {
	const uint t = tg.y, d = tg.x * LW_THREADS_attn_merge + tid;
	if (t >= a.rows * a.q_heads) return;
	// The same for all of a simdgroup: head_dim is a multiple of SIMD.
	if (d < a.head_dim) o[size_t(t) * a.head_dim + d] = merged(partial, stats, step, a, t, d, lane);
}
