// o and d of gdn_step while gdnState stays as it is: S of a head changes from row to row in registers alone.
// A threadgroup does 16 v rows of one head through all rows (kernels/shared/metal/gdn_rows.h). No threadgroup memory.
#include "kernels/shared/metal/gdn_rows.h"

template <uint PARTS>
inline void verify_rows(const thread GdnInputs& in, device const float* state, device float* o, device float* d,
                        const constant gdn_verify_args& a, uint h, uint v0, uint lane) {
	GdnTile<PARTS> tile;
	gdn_load<PARTS>(state + gdn_state_at(a, h, v0), a.head_dim, lane, tile);
	gdn_walk<true, PARTS>(in, o, d, a, a.rows, h, v0, lane, tile);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_verify)]]
void gdn_verify(device const float* qk [[buffer(0)]],
                device const float* conv [[buffer(1)]],
                device const float* g [[buffer(2)]],
                device const float* beta [[buffer(3)]],
                device const float* gdn_state [[buffer(4)]],
                device float* o [[buffer(5)]],
                device float* d [[buffer(6)]],
                constant gdn_verify_args& a [[buffer(24)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint lane [[thread_index_in_simdgroup]],
                uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.y;
	if (h >= a.v_heads || tg.x >= a.head_dim / GDN_ROWS_OF_GROUP || a.rows == 0) return;
	const uint v0 = tg.x * GDN_ROWS_OF_GROUP + sg * QUAD;
	const GdnInputs in = {qk, conv, g, beta};
	if (a.head_dim <= GDN_KEYS)
		verify_rows<1>(in, gdn_state, o, d, a, h, v0, lane);
	else
		verify_rows<2>(in, gdn_state, o, d, a, h, v0, lane);
}
