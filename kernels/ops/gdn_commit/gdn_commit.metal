// gdnState as gdn_step leaves it after the first n = min(step.committed, rows) rows; n = 0 leaves it untouched.
// A threadgroup does 16 v rows of one head through these rows (kernels/shared/metal/gdn_rows.h), without the products
// with q. No threadgroup memory.
#include "kernels/shared/metal/gdn_rows.h"

template <uint PARTS>
inline void commit_rows(const thread GdnInputs& in, device float* state, const constant gdn_commit_args& a, uint rows,
                        uint h, uint v0, uint lane) {
	GdnTile<PARTS> tile;
	device float* mine = state + gdn_state_at(a, h, v0);
	gdn_load<PARTS>(mine, a.head_dim, lane, tile);
	gdn_walk<false, PARTS>(in, nullptr, a, rows, h, v0, lane, tile);
	gdn_store<PARTS>(mine, a.head_dim, lane, tile);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_commit)]]
void gdn_commit(device const float* qk [[buffer(0)]],
                device const float* conv [[buffer(1)]],
                device const float* g [[buffer(2)]],
                device const float* beta [[buffer(3)]],
                device const uint* step [[buffer(4)]],
                device float* gdn_state [[buffer(5)]],
                constant gdn_commit_args& a [[buffer(24)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint lane [[thread_index_in_simdgroup]],
                uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.y, rows = min(step[LW_STEP_COMMITTED], a.rows);
	if (h >= a.v_heads || tg.x >= a.head_dim / GDN_ROWS_OF_GROUP || rows == 0) return;
	const uint v0 = tg.x * GDN_ROWS_OF_GROUP + sg * QUAD;
	const GdnInputs in = {qk, conv, g, beta};
	if (a.head_dim <= GDN_KEYS)
		commit_rows<1>(in, gdn_state, a, rows, h, v0, lane);
	else
		commit_rows<2>(in, gdn_state, a, rows, h, v0, lane);
}
