// convState[l] and gdnState[l] as conv_silu and gdn_step leave them after the first n = min(step.committed, rows) rows of
// layer l; n = 0 leaves them untouched. A threadgroup does 16 v rows of one head of one layer through these rows
// (kernels/shared/metal/gdn_rows.h), by the d that gdn_verify has left, and the layer's threads share its channels. No
// threadgroup memory. past is 3.
#include "kernels/shared/metal/conv.h"
#include "kernels/shared/metal/gdn_rows.h"

template <uint PARTS>
inline void commit_rows(device const float* qk, device const float* g, device const float* d, device float* state,
                        const constant gdn_commit_args& a, uint rows, uint h, uint v0, uint lane) {
	GdnTile<PARTS> tile;
	device float* mine = state + gdn_state_at(a, h, v0);
	gdn_load<PARTS>(mine, a.head_dim, lane, tile);
	gdn_apply<PARTS>(qk, g, d, a, rows, h, v0, lane, tile);
	gdn_store<PARTS>(mine, a.head_dim, lane, tile);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_commit)]]
void gdn_commit(device const float* proj [[buffer(0)]],
                device const float* qk [[buffer(1)]],
                device const float* g [[buffer(2)]],
                device const float* d [[buffer(3)]],
                device const uint* step [[buffer(4)]],
                device float* conv_state [[buffer(5)]],
                device float* gdn_state [[buffer(6)]],
                constant gdn_commit_args& a [[buffer(24)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint lane [[thread_index_in_simdgroup]],
                uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.y, layer = tg.z, tiles = a.head_dim / GDN_ROWS_OF_GROUP;
	const uint rows = min(step[LW_STEP_COMMITTED], a.rows);
	if (layer >= a.layers || h >= a.v_heads || tg.x >= tiles || rows == 0) return;
	const size_t first = size_t(layer) * a.rows;

	device float* past = conv_state + size_t(layer) * PAST * a.channels;
	for (uint c = (h * tiles + tg.x) * LW_THREADS_gdn_commit + sg * SIMD + lane; c < a.channels;
	     c += a.v_heads * tiles * LW_THREADS_gdn_commit)
		keep_past(proj + first * a.proj_stride, past, a, c, rows);

	const uint v0 = tg.x * GDN_ROWS_OF_GROUP + sg * QUAD;
	qk += first * gdn_qk_stride(a);
	g += first * a.v_heads;
	d += first * gdn_o_stride(a);
	device float* state = gdn_state + gdn_state_at(a, layer * a.v_heads, 0);
	if (a.head_dim <= GDN_KEYS)
		commit_rows<1>(qk, g, d, state, a, rows, h, v0, lane);
	else
		commit_rows<2>(qk, g, d, state, a, rows, h, v0, lane);
}
