// h[p,j] = silu(gate[e, gate_row + j] . x[p / top_k]) * (up[e, up_row + j] . x[p / top_k]) for the pairs p of expert e,
// order[offsets[e] .. offsets[e + 1]]. A threadgroup does 32 of j for up to 64 pairs of one run: tile tg.x of j, so that
// neighbours share pairs, and slot tg.y of expert_tile(). Its slab of weights is 32 rows of gate, then 32 of up, and a
// simdgroup takes the same eight of both, so that each lane holds a product's two factors.
// Threadgroup memory: 18432 + 512 bytes. 96 to 128 registers a thread on sm_90, none spilled.
// Pairs in no run stay as they are.
#include "kernels/shared/metal/gemm.h"

constant bool has_gate_scales [[function_constant(4)]];
constant bool has_gate_biases [[function_constant(5)]];
constant bool has_up_scales [[function_constant(7)]];
constant bool has_up_biases [[function_constant(8)]];

constant constexpr uint HALF_TILE = GEMM_TILE / 2;

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_gate_up_gemm)]]
void moe_gate_up_gemm(device const float* x [[buffer(0)]],
                      device const uint* order [[buffer(1)]],
                      device const uint* offsets [[buffer(2)]],
                      device const uint* gate [[buffer(3)]],
                      device const typename F::type* gate_scales [[buffer(4), function_constant(has_gate_scales)]],
                      device const typename F::type* gate_biases [[buffer(5), function_constant(has_gate_biases)]],
                      device const uint* up [[buffer(6)]],
                      device const typename F::type* up_scales [[buffer(7), function_constant(has_up_scales)]],
                      device const typename F::type* up_biases [[buffer(8), function_constant(has_up_biases)]],
                      device float* h [[buffer(9)]],
                      constant moe_gate_up_gemm_args& a [[buffer(24)]],
                      uint3 tg [[threadgroup_position_in_grid]],
                      uint tid [[thread_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]],
                      uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float4 memory[GEMM_MEMORY];
	threadgroup uint pair[GEMM_TILE];
	threadgroup uint rows[GEMM_TILE];
	threadgroup float* floats = (threadgroup float*)memory;

	const uint j0 = tg.x * HALF_TILE;
	const uint experts = min(a.experts_plus1 - 1, a.experts);
	uint e = 0, first = 0;
	const uint n = expert_tile(offsets, experts, a.pairs, tg.y, lane, e, first);
	if (n == 0 || j0 >= a.ffn) return;
	// Behind the last row of the expert the tile repeats it: what comes of that is not stored.
	const uint j = min(j0 + tid / 2 % HALF_TILE, a.ffn - 1);
	const bool is_up = tid / 2 >= HALF_TILE;
	GemmWeight<F> w = {gate, nullptr, nullptr, size_t(e) * a.gate_rows + a.gate_row + j};
	if (has_gate_scales) w.scales = gate_scales;
	if (has_gate_biases) w.biases = gate_biases;
	if (is_up) {
		w.values = up;
		w.row = size_t(e) * a.up_rows + a.up_row + j;
		if (has_up_scales) w.scales = up_scales;
		if (has_up_biases) w.biases = up_biases;
	}
	list_pairs(order, first, n, a.pairs, a.top_k, pair, rows, tid);
	threadgroup_barrier(mem_flags::mem_threadgroup);

	simdgroup_float8x8 sums[GEMM_SUMS];
	multiply_tile<F>(sums, x, rows, n, w, a.in_dim, sg * 8, HALF_TILE + sg * 8, floats, tid);
	LW_UNROLL
	for (uint i = 0; i < GEMM_SUMS; i += 2) {
		LW_UNROLL
		for (uint k = 0; k < 2; k++)
			sums[i].thread_elements()[k] = silu(sums[i].thread_elements()[k]) * sums[i + 1].thread_elements()[k];
	}
	store_sums<1>(sums, n, sg * 8, floats);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	for (uint i = tid; i < n * HALF_TILE; i += LW_THREADS_moe_gate_up_gemm) {
		const uint r = i / HALF_TILE, o = i % HALF_TILE;
		if (j0 + o < a.ffn && pair[r] != NO_PAIR) h[size_t(pair[r]) * a.ffn + j0 + o] = floats[r * GEMM_OUT_LINE + o];
	}
}

#define X(v) LW_KERNEL(moe_gate_up_gemm__##v, moe_gate_up_gemm<format::v>)
LW_VARIANTS_moe_gate_up_gemm(X)
