// h[r,k,j] = silu(gate[e, gate_row + j] . x[r]) * (up[e, up_row + j] . x[r]), e = ids[r,k]; zeros for an expert outside.
// A threadgroup does COLUMNS of j for one pair (r,k): its first simdgroup the products with gate, its second those
// with up. So all experts of all rows run side by side. Threadgroup memory: 4 * COLUMNS bytes.
#include "kernels/shared/metal/expert_columns.h"

constant bool has_gate_scales [[function_constant(3)]];
constant bool has_gate_biases [[function_constant(4)]];
constant bool has_up_scales [[function_constant(6)]];
constant bool has_up_biases [[function_constant(7)]];

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_gate_up)]]
void moe_gate_up(device const float* x [[buffer(0)]],
                 device const uint* ids [[buffer(1)]],
                 device const uchar* gate [[buffer(2)]],
                 device const typename F::type* gate_scales [[buffer(3), function_constant(has_gate_scales)]],
                 device const typename F::type* gate_biases [[buffer(4), function_constant(has_gate_biases)]],
                 device const uchar* up [[buffer(5)]],
                 device const typename F::type* up_scales [[buffer(6), function_constant(has_up_scales)]],
                 device const typename F::type* up_biases [[buffer(7), function_constant(has_up_biases)]],
                 device float* h [[buffer(8)]],
                 constant moe_gate_up_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float ups[COLUMNS];
	const uint pair = tg.y, j = tg.x * COLUMNS;
	if (pair >= a.rows * a.top_k || j >= a.ffn) return;
	device float* to = h + size_t(pair) * a.ffn + j;
	const uint last = a.ffn - j - 1, expert = ids[pair];
	if (expert >= a.experts) {
		if (tid < COLUMNS && tid <= last) to[tid] = 0.0f;
		return;
	}

	const bool is_up = sg != 0;
	WeightRow<F> w;
	w.values = is_up ? up : gate;
	w.scales = nullptr;
	w.biases = nullptr;
	if (has_gate_scales) w.scales = gate_scales;
	if (has_gate_biases) w.biases = gate_biases;
	if (has_up_scales) w.scales = is_up ? up_scales : w.scales;
	if (has_up_biases) w.biases = is_up ? up_biases : w.biases;
	move_rows(w, size_t(expert) * (is_up ? a.up_rows : a.gate_rows) + (is_up ? a.up_row : a.gate_row) + j, a.in_dim);
	float sums[COLUMNS] = {};
	add_lane_dots<1>(w, last, x + pair / a.top_k * a.in_dim, a.in_dim, lane, sums);
	store_silu_products(sum_lanes<COLUMNS>(sums, lane), is_up, ups, last, to, lane);
}

#define X(v) LW_KERNEL(moe_gate_up__##v, moe_gate_up<format::v>)
LW_VARIANTS_moe_gate_up(X)
