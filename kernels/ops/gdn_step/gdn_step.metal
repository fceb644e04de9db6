// For each row r in order, with S = gdnState[h] ([v][k]), q and k of the value head's key head:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; o[r,h] = S q.
// A threadgroup does 16 v rows of one head, which stay in registers through all rows (kernels/shared/metal/gdn_rows.h),
// so S is read and written once. No threadgroup memory.
#include "kernels/shared/metal/gdn_rows.h"

template <uint PARTS>
inline void step_rows(const thread GdnInputs& in, device float* state, device float* o, const constant gdn_step_args& a,
                      uint h, uint v0, uint lane) {
	GdnTile<PARTS> tile;
	device float* mine = state + gdn_state_at(a, h, v0);
	gdn_load<PARTS>(mine, a.head_dim, lane, tile);
	gdn_walk<false, PARTS>(in, o, nullptr, a, a.rows, h, v0, lane, tile);
	gdn_store<PARTS>(mine, a.head_dim, lane, tile);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_step)]]
void gdn_step(device const float* qk [[buffer(0)]],
              device const float* conv [[buffer(1)]],
              device const float* g [[buffer(2)]],
              device const float* beta [[buffer(3)]],
              device float* gdn_state [[buffer(4)]],
              device float* o [[buffer(5)]],
              constant gdn_step_args& a [[buffer(24)]],
              uint3 tg [[threadgroup_position_in_grid]],
              uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.y;
	if (h >= a.v_heads || tg.x >= a.head_dim / GDN_ROWS_OF_GROUP || a.rows == 0) return;
	const uint v0 = tg.x * GDN_ROWS_OF_GROUP + sg * QUAD;
	const GdnInputs in = {qk, conv, g, beta};
	if (a.head_dim <= GDN_KEYS)
		step_rows<1>(in, gdn_state, o, a, h, v0, lane);
	else
		step_rows<2>(in, gdn_state, o, a, h, v0, lane);
}
