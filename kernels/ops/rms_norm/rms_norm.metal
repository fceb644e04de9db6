// y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d]. A threadgroup does a row.
// Threadgroup memory: 32 * 4 bytes.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_rms_norm)]]
void rms_norm(device const float* x [[buffer(0)]],
              device const float* w [[buffer(1)]],
              device float* y [[buffer(2)]],
              constant rms_norm_args& a [[buffer(24)]],
              uint3 tg [[threadgroup_position_in_grid]],
              uint tid [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float slots[SIMD];
	if (tg.x >= a.rows) return;
	device const float* row = x + size_t(tg.x) * a.dim;
	device float* out = y + size_t(tg.x) * a.dim;
	float sum = 0.0f;
	for (uint d = tid; d < a.dim; d += LW_THREADS_rms_norm) {
		const float v = row[d];
		sum = fma(v, v, sum);
	}
	sum = threadgroup_sum(sum, slots, lane, sg, LW_THREADS_rms_norm / SIMD);
	const float inverse = precise::rsqrt(sum / float(a.dim) + a.eps);
	for (uint d = tid; d < a.dim; d += LW_THREADS_rms_norm) out[d] = row[d] * inverse * w[d];
}
