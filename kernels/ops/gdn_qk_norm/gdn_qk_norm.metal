// qk[r,i,h,d] = x[d] / sqrt(sum_d(x[d]^2) + eps), times headDim^-0.5 for i = 0 (q); x is head i*kHeads+h of conv's row.
// A simdgroup does one head of one row. No threadgroup memory.
#include "kernels/shared/metal/gdn.h"

constant constexpr uint HEADS = LW_THREADS_gdn_qk_norm / SIMD;

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_qk_norm)]]
void gdn_qk_norm(device const float* conv [[buffer(0)]],
                 device float* qk [[buffer(1)]],
                 constant gdn_qk_norm_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint heads = 2 * a.k_heads, h = tg.x * HEADS + sg, r = tg.y, n = a.head_dim;
	if (r >= a.rows) return;
	if (h < heads) {
		device const float* x = conv + size_t(r) * a.channels + size_t(h) * n;
		device float* y = qk + (size_t(r) * heads + h) * n;
		float held[HELD];
		const float scale = unit_scale(hold_squares(x, n, lane, held), a.eps, h < a.k_heads, n);
		for (uint m = 0; m < HELD; m++)
			if (lane + m * SIMD < n) y[lane + m * SIMD] = held[m] * scale;
		for (uint d = lane + HELD * SIMD; d < n; d += SIMD) y[d] = x[d] * scale;
	}
}
