// o as attn_merge makes it, gated as attn_gate does: o[r,h,d] * sigmoid(qkv[r, h * 2 * headDim + headDim + d]).
// A threadgroup does LW_THREADS_attn_merge_gate dims of one row and head: tg = (dims, row * qHeads + head).
// No threadgroup memory.
#include "kernels/shared/metal/attention_merge.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_merge_gate)]]
void attn_merge_gate(device const float* partial [[buffer(0)]],
                     device const float* stats [[buffer(1)]],
                     device const uint* step [[buffer(2)]],
                     device const float* qkv [[buffer(3)]],
                     device float* o [[buffer(4)]],
                     constant attn_merge_gate_args& a [[buffer(24)]],
                     uint3 tg [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
	const uint t = tg.y, d = tg.x * LW_THREADS_attn_merge_gate + tid;
	if (t >= a.rows * a.q_heads) return;
	// The same for all of a simdgroup: head_dim is a multiple of SIMD.
	if (d < a.head_dim) {
		const uint r = t / a.q_heads, h = t % a.q_heads;
		const float gate = sigmoid(qkv[size_t(r) * a.qkv_width + (2 * h + 1) * a.head_dim + d]);
		o[size_t(t) * a.head_dim + d] = merged(partial, stats, step, a, t, d, lane) * gate;
	}
}
