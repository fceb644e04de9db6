// x[r,d] += delta[r,d]; y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d]. A threadgroup does a row.
// The norm is that of the stored f32 sum, with the order of sums of rms_norm: the bits are those of an addition
// followed by rms_norm. The first HELD sums of a thread stay in registers, the others are read again.
// Threadgroup memory: 32 * 4 bytes.
#include "kernels/shared/metal/base.h"

constant constexpr uint HELD = 8;
constant constexpr uint STEP = LW_THREADS_add_rms_norm;

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_add_rms_norm)]]
void add_rms_norm(device float* x [[buffer(0)]],
                  device const float* delta [[buffer(1)]],
                  device const float* w [[buffer(2)]],
                  device float* y [[buffer(3)]],
                  constant add_rms_norm_args& a [[buffer(24)]],
                  uint3 tg [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]],
                  uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float slots[SIMD];
	if (tg.x >= a.rows) return;
	device float* row = x + size_t(tg.x) * a.dim;
	device const float* added = delta + size_t(tg.x) * a.dim;
	device float* out = y + size_t(tg.x) * a.dim;
	float held[HELD];
	for (uint m = 0; m < HELD; m++) {
		const uint d = tid + m * STEP;
		held[m] = d < a.dim ? row[d] + added[d] : 0.0f;
	}
	float sum = 0.0f;
	for (uint m = 0; m < HELD; m++) sum = fma(held[m], held[m], sum);
	for (uint d = tid + HELD * STEP; d < a.dim; d += STEP) {
		const float v = row[d] + added[d];
		row[d] = v;
		sum = fma(v, v, sum);
	}
	for (uint m = 0; m < HELD; m++)
		if (tid + m * STEP < a.dim) row[tid + m * STEP] = held[m];
	sum = threadgroup_sum(sum, slots, lane, sg, STEP / SIMD);
	const float inverse = precise::rsqrt(sum / float(a.dim) + a.eps);
	for (uint m = 0; m < HELD; m++) {
		const uint d = tid + m * STEP;
		if (d < a.dim) out[d] = held[m] * inverse * w[d];
	}
	for (uint d = tid + HELD * STEP; d < a.dim; d += STEP) out[d] = row[d] * inverse * w[d];
}
