// h[r,j] = silu(gu[r,j]) * gu[r, ffn + j]. A threadgroup does 1024 columns (tg.x) of row tg.y, a thread four.
// No threadgroup memory.
#include "kernels/shared/metal/base.h"

constant constexpr uint COLUMNS = 4 * LW_THREADS_swiglu;

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_swiglu)]]
void swiglu(device const float* gu [[buffer(0)]],
            device float* h [[buffer(1)]],
            constant swiglu_args& a [[buffer(24)]],
            uint3 tg [[threadgroup_position_in_grid]],
            uint tid [[thread_index_in_threadgroup]]) {
	if (tg.y >= a.rows) return;
	device const float* gate = gu + size_t(tg.y) * a.gu_stride;
	device const float* up = gate + a.ffn;
	device float* out = h + size_t(tg.y) * a.ffn;
	if (a.ffn % 4 == 0 && a.gu_stride % 4 == 0) {
		const uint j = tg.x * COLUMNS + 4 * tid;
		if (j >= a.ffn) return;
		const float4 g = *(device const float4*)(gate + j), u = *(device const float4*)(up + j);
		*(device float4*)(out + j) = float4(silu(g.x) * u.x, silu(g.y) * u.y, silu(g.z) * u.z, silu(g.w) * u.w);
	} else {
		const uint end = min(tg.x * COLUMNS + COLUMNS, a.ffn);
		for (uint j = tg.x * COLUMNS + tid; j < end; j += LW_THREADS_swiglu) out[j] = silu(gate[j]) * up[j];
	}
}
