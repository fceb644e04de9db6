// y[b,i] = x[b,i]. Both are one run of words, of which a threadgroup copies 16 KiB: each thread has four vectors under
// way at once, a simdgroup's vectors lie side by side.
#include "kernels/shared/metal/base.h"

constant constexpr uint VECTORS = 4;  // of 4 words, a thread

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_stream_copy)]]
void stream_copy(device const uint* x [[buffer(0)]],
                 device uint* y [[buffer(1)]],
                 constant stream_copy_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]]) {
	const ulong words = ulong(a.blocks) * a.dim, vectors = words / 4;
	const ulong first = ulong(tg.x) * (VECTORS * LW_THREADS_stream_copy);
	device const uint4* from = (device const uint4*)x;
	device uint4* to = (device uint4*)y;
	if (first + VECTORS * LW_THREADS_stream_copy <= vectors) {
		uint4 v[VECTORS];
		for (uint k = 0; k < VECTORS; k++) v[k] = from[first + k * LW_THREADS_stream_copy + tid];
		for (uint k = 0; k < VECTORS; k++) to[first + k * LW_THREADS_stream_copy + tid] = v[k];
		return;
	}
	// The last threadgroup: what vectors there are, then up to three words.
	for (uint k = 0; k < VECTORS; k++) {
		const ulong i = first + k * LW_THREADS_stream_copy + tid;
		if (i < vectors) to[i] = from[i];
	}
	const ulong rest = vectors * 4 + tid;
	if (first <= vectors && rest < words) y[rest] = x[rest];
}
