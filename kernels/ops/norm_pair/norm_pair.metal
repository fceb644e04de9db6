// y[r] = a[r] / rms(a[r]) * wA ++ b[r] / rms(b[r]) * wB. A threadgroup does one half of a row: tg = (row, half).
// Threadgroup memory: 32 * 4 bytes.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_norm_pair)]]
void norm_pair(device const float* a [[buffer(0)]],
               device const float* b [[buffer(1)]],
               device const float* w_a [[buffer(2)]],
               device const float* w_b [[buffer(3)]],
               device float* y [[buffer(4)]],
               constant norm_pair_args& args [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]],
               uint lane [[thread_index_in_simdgroup]],
               uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float slots[SIMD];
	if (tg.x >= args.rows || tg.y >= 2) return;
	const uint dim = args.dim;
	device const float* row = (tg.y == 0 ? a : b) + size_t(tg.x) * dim;
	device const float* w = tg.y == 0 ? w_a : w_b;
	device float* out = y + size_t(tg.x) * args.two_dim + size_t(tg.y) * dim;
	float sum = 0.0f;
	for (uint d = tid; d < dim; d += LW_THREADS_norm_pair) {
		const float v = row[d];
		sum = fma(v, v, sum);
	}
	sum = threadgroup_sum(sum, slots, lane, sg, LW_THREADS_norm_pair / SIMD);
	const float inverse = precise::rsqrt(sum / float(dim) + args.eps);
	for (uint d = tid; d < dim; d += LW_THREADS_norm_pair) out[d] = row[d] * inverse * w[d];
}
