// y[r,c] = sum_k weights[r,k] * d[r,k,c], k ascending. A threadgroup does 1024 columns (tg.x) of row tg.y, a thread four.
// No threadgroup memory.
#include "kernels/shared/metal/base.h"

constant constexpr uint COLUMNS = 4 * LW_THREADS_moe_combine;

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_combine)]]
void moe_combine(device const float* d [[buffer(0)]],
                 device const float* weights [[buffer(1)]],
                 device float* y [[buffer(2)]],
                 constant moe_combine_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]]) {
	if (tg.y >= a.rows) return;
	device const float* weight = weights + size_t(tg.y) * a.top_k;
	device const float* row = d + size_t(tg.y) * a.top_k * a.dim;
	device float* out = y + size_t(tg.y) * a.dim;
	if (a.dim % 4 == 0) {
		const uint c = tg.x * COLUMNS + 4 * tid;
		if (c >= a.dim) return;
		float4 sum = float4(0.0f);
		for (uint k = 0; k < a.top_k; k++) {
			const float s = weight[k];
			const float4 v = *(device const float4*)(row + size_t(k) * a.dim + c);
			sum.x = fma(s, v.x, sum.x);
			sum.y = fma(s, v.y, sum.y);
			sum.z = fma(s, v.z, sum.z);
			sum.w = fma(s, v.w, sum.w);
		}
		*(device float4*)(out + c) = sum;
	} else {
		const uint end = min(tg.x * COLUMNS + COLUMNS, a.dim);
		for (uint c = tg.x * COLUMNS + tid; c < end; c += LW_THREADS_moe_combine) {
			float sum = 0.0f;
			for (uint k = 0; k < a.top_k; k++) sum = fma(weight[k], row[size_t(k) * a.dim + c], sum);
			out[c] = sum;
		}
	}
}
