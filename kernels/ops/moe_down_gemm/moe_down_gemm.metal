// d[p,o] = down[e,o] . h[p] for the pairs p of expert e, order[offsets[e] .. offsets[e + 1]]. A threadgroup does 64 outputs
// for up to 64 pairs of one run: output tile tg.x, so that neighbours share pairs, and slot tg.y of expert_tile().
// Threadgroup memory: 18432 + 512 bytes. 96 to 128 registers a thread on sm_90, none spilled.
// Pairs in no run stay as they are.
#include "kernels/shared/metal/gemm.h"

constant bool has_down_scales [[function_constant(4)]];
constant bool has_down_biases [[function_constant(5)]];

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_down_gemm)]]
void moe_down_gemm(device const float* h [[buffer(0)]],
                   device const uint* order [[buffer(1)]],
                   device const uint* offsets [[buffer(2)]],
                   device const uint* down [[buffer(3)]],
                   device const typename F::type* down_scales [[buffer(4), function_constant(has_down_scales)]],
                   device const typename F::type* down_biases [[buffer(5), function_constant(has_down_biases)]],
                   device float* d [[buffer(6)]],
                   constant moe_down_gemm_args& a [[buffer(24)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]],
                   uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float4 memory[GEMM_MEMORY];
	threadgroup uint pair[GEMM_TILE];
	threadgroup uint rows[GEMM_TILE];
	threadgroup float* floats = (threadgroup float*)memory;

	const uint o0 = tg.x * GEMM_TILE;
	const uint experts = min(a.experts_plus1 - 1, a.experts);
	uint e = 0, first = 0;
	const uint n = expert_tile(offsets, experts, a.pairs, tg.y, lane, e, first);
	if (n == 0 || o0 >= a.dim) return;
	// Behind the last row of the expert the tile repeats it: what comes of that is not stored.
	GemmWeight<F> w = {down, nullptr, nullptr, size_t(e) * a.dim + min(o0 + tid / 2, a.dim - 1)};
	if (has_down_scales) w.scales = down_scales;
	if (has_down_biases) w.biases = down_biases;
	list_pairs(order, first, n, a.pairs, 1, pair, rows, tid);
	threadgroup_barrier(mem_flags::mem_threadgroup);

	simdgroup_float8x8 sums[GEMM_SUMS];
	multiply_tile<F>(sums, h, rows, n, w, a.ffn, sg * 16, sg * 16 + 8, floats, tid);
	store_sums<2>(sums, n, sg * 16, floats);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	for (uint i = tid; i < n * GEMM_TILE; i += LW_THREADS_moe_down_gemm) {
		const uint r = i / GEMM_TILE, o = i % GEMM_TILE;
		if (o0 + o < a.dim && pair[r] != NO_PAIR) d[size_t(pair[r]) * a.dim + o0 + o] = floats[r * GEMM_OUT_LINE + o];
	}
}

#define X(v) LW_KERNEL(moe_down_gemm__##v, moe_down_gemm<format::v>)
LW_VARIANTS_moe_down_gemm(X)
