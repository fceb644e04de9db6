// moe[r,c] += sigmoid(logits[r, gate_col]) * shared[r,c]. A threadgroup does 1024 columns (tg.x) of row tg.y, a thread
// four. No threadgroup memory.
#include "kernels/shared/metal/base.h"

constant constexpr uint COLUMNS = 4 * LW_THREADS_moe_shared_add;

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_shared_add)]]
void moe_shared_add(device float* moe [[buffer(0)]],
                    device const float* shared [[buffer(1)]],
                    device const float* logits [[buffer(2)]],
                    constant moe_shared_add_args& a [[buffer(24)]],
                    uint3 tg [[threadgroup_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]]) {
	if (tg.y >= a.rows) return;
	const float gate = sigmoid(logits[size_t(tg.y) * a.logit_stride + a.gate_col]);
	device float* to = moe + size_t(tg.y) * a.dim;
	device const float* from = shared + size_t(tg.y) * a.dim;
	if (a.dim % 4 == 0) {
		const uint c = tg.x * COLUMNS + 4 * tid;
		if (c >= a.dim) return;
		float4 m = *(device const float4*)(to + c);
		const float4 s = *(device const float4*)(from + c);
		m.x = fma(gate, s.x, m.x);
		m.y = fma(gate, s.y, m.y);
		m.z = fma(gate, s.z, m.z);
		m.w = fma(gate, s.w, m.w);
		*(device float4*)(to + c) = m;
	} else {
		const uint end = min(tg.x * COLUMNS + COLUMNS, a.dim);
		for (uint c = tg.x * COLUMNS + tid; c < end; c += LW_THREADS_moe_shared_add) to[c] = fma(gate, from[c], to[c]);
	}
}
