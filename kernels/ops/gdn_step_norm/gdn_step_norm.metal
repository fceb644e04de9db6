// y as gated_rms_norm makes it of the o of gdn_step.
// A threadgroup does one head: its simdgroups take 4 v rows each through all rows (kernels/shared/metal/gdn_rows.h),
// with o in y, then norm a row each where it stands. No threadgroup memory.
#include "kernels/shared/metal/gdn_rows.h"

constant constexpr uint SIMDGROUPS = LW_THREADS_gdn_step_norm / SIMD;

template <uint PARTS>
inline void step_rows(const thread GdnInputs& in, device float* state, device float* y,
                      const constant gdn_step_norm_args& a, uint h, uint lane, uint sg) {
	for (uint v0 = sg * QUAD; v0 < a.head_dim; v0 += SIMDGROUPS * QUAD) {
		GdnTile<PARTS> tile;
		device float* mine = state + gdn_state_at(a, h, v0);
		gdn_load<PARTS>(mine, a.head_dim, lane, tile);
		gdn_walk<true, PARTS>(in, y, a, a.rows, h, v0, lane, tile);
		gdn_store<PARTS>(mine, a.head_dim, lane, tile);
	}
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_step_norm)]]
void gdn_step_norm(device const float* qk [[buffer(0)]],
                   device const float* conv [[buffer(1)]],
                   device const float* g [[buffer(2)]],
                   device const float* beta [[buffer(3)]],
                   device float* gdn_state [[buffer(4)]],
                   device const float* proj [[buffer(5)]],
                   device const float* w [[buffer(6)]],
                   device float* y [[buffer(7)]],
                   constant gdn_step_norm_args& a [[buffer(24)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint lane [[thread_index_in_simdgroup]],
                   uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.x, n = a.head_dim;
	if (h >= a.v_heads || a.rows == 0) return;
	const GdnInputs in = {qk, conv, g, beta};
	if (n <= GDN_KEYS)
		step_rows<1>(in, gdn_state, y, a, h, lane, sg);
	else
		step_rows<2>(in, gdn_state, y, a, h, lane, sg);
	threadgroup_barrier(mem_flags::mem_device);
	for (uint r = sg; r < a.rows; r += SIMDGROUPS) {
		device float* o = y + r * gdn_o_stride(a) + gdn_o_at(a, h);
		gated_norm(o, w, proj + size_t(r) * a.proj_stride + a.z_col + size_t(h) * n, o, n, a.eps, lane);
	}
}
