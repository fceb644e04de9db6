// o[r,h,d] *= sigmoid(qkv[r, h * 2 * headDim + headDim + d]).
// A threadgroup does LW_THREADS_attn_gate consecutive values of one row: tg = (row, run). No threadgroup memory.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_gate)]]
void attn_gate(device float* o [[buffer(0)]],
               device const float* qkv [[buffer(1)]],
               constant attn_gate_args& a [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]]) {
	const uint r = tg.x, width = a.q_heads * a.head_dim, e = tg.y * LW_THREADS_attn_gate + tid;
	if (r >= a.rows) return;
	if (e < width) {
		// Before value e stand the queries of e's head and of those before it.
		const float gate = qkv[size_t(r) * a.qkv_width + e + (e / a.head_dim + 1) * a.head_dim];
		device float* to = o + size_t(r) * width + e;
		*to = *to * sigmoid(gate);
	}
}
