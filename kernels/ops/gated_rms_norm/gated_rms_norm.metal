// y[r,h,d] = o[r,h,d] / sqrt(mean_d(o[r,h,d]^2) + eps) * w[d] * silu(z), z = proj[r, zCol + h*headDim + d].
// A simdgroup does one head of one row. No threadgroup memory.
#include "kernels/shared/metal/gdn.h"

constant constexpr uint HEADS = LW_THREADS_gated_rms_norm / SIMD;

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gated_rms_norm)]]
void gated_rms_norm(device const float* o [[buffer(0)]],
                    device const float* proj [[buffer(1)]],
                    device const float* w [[buffer(2)]],
                    device float* y [[buffer(3)]],
                    constant gated_rms_norm_args& a [[buffer(24)]],
                    uint3 tg [[threadgroup_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]],
                    uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.x * HEADS + sg, r = tg.y, n = a.head_dim;
	if (r >= a.rows) return;
	if (h < a.v_heads) {
		const size_t at = (size_t(r) * a.v_heads + h) * n;
		gated_norm(o + at, w, proj + size_t(r) * a.proj_stride + a.z_col + size_t(h) * n, y + at, n, a.eps, lane);
	}
}
