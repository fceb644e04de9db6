// y[b] = sum_i x[b,i] modulo 2^32, exact in any order. A threadgroup sums a block: each thread has four vectors under
// way at once, a simdgroup's vectors lie side by side.
// Threadgroup memory: 8 * 4 bytes.
#include "kernels/shared/metal/base.h"

constant constexpr uint VECTORS = 4;  // of 4 words, a thread

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_stream_read)]]
void stream_read(device const uint* x [[buffer(0)]],
                 device uint* y [[buffer(1)]],
                 constant stream_read_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup uint slots[LW_THREADS_stream_read / SIMD];
	if (tg.x >= a.blocks) return;
	const size_t begin = size_t(tg.x) * a.dim;
	// Words before the first multiple of 16 bytes.
	const uint odd = uint(begin) & 3, head = min(odd == 0 ? 0 : 4 - odd, a.dim);
	const uint vectors = (a.dim - head) / 4;
	device const uint* block = x + begin;
	device const uint4* from = (device const uint4*)(block + head);
	uint4 part = uint4(0);
	uint i = tid;
	for (; i + (VECTORS - 1) * LW_THREADS_stream_read < vectors; i += VECTORS * LW_THREADS_stream_read) {
		uint4 v[VECTORS];
		for (uint k = 0; k < VECTORS; k++) v[k] = from[i + k * LW_THREADS_stream_read];
		for (uint k = 0; k < VECTORS; k++) part += v[k];
	}
	for (; i < vectors; i += LW_THREADS_stream_read) part += from[i];
	uint sum = part.x + part.y + part.z + part.w;
	if (tid < head) sum += block[tid];
	const uint rest = head + 4 * vectors + tid;
	if (rest < a.dim) sum += block[rest];
	sum = simd_sum(sum);
	if (lane == 0) slots[sg] = sum;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	sum = simd_sum(lane < LW_THREADS_stream_read / SIMD ? slots[lane] : 0u);
	if (tid == 0) y[tg.x] = sum;
}
