// ids[r,:], weights[r,:] = router_topk of logits[r, 0:experts]; with n[r,i] = x[r,i] * w_norm[i] / sqrt(mean_i(x[r,i]^2) +
// eps): h[r,k,j] = silu(gate[e, gate_row + j] . n[r]) * (up[e, up_row + j] . n[r]), e = ids[r,k], k < top_k;
// h[r,top_k,j] = silu(shared_gate[j] . n[r]) * (shared_up[j] . n[r]).
// A threadgroup does COLUMNS of j for one pair (r,k): its first simdgroup the products with gate, its second those with up.
// Each simdgroup finds the k-th expert for itself, in k + 1 rounds: a record that chooses for all would be one more to wait
// for. The first threadgroup of a row goes on to the last expert and writes the choice.
// top_k <= 32, top_k <= experts, slots = top_k + 1. Threadgroup memory: 4 * COLUMNS bytes.
#include "kernels/shared/metal/expert_columns.h"
#include "kernels/shared/metal/router.h"
#include "kernels/shared/metal/weighed_rows.h"

constant bool has_gate_scales [[function_constant(4)]];
constant bool has_gate_biases [[function_constant(5)]];
constant bool has_up_scales [[function_constant(7)]];
constant bool has_up_biases [[function_constant(8)]];
constant bool has_shared_gate_scales [[function_constant(10)]];
constant bool has_shared_gate_biases [[function_constant(11)]];
constant bool has_shared_up_scales [[function_constant(13)]];
constant bool has_shared_up_biases [[function_constant(14)]];

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_route_gate_up)]]
void moe_route_gate_up(device const float* x [[buffer(0)]],
                       device const float* w_norm [[buffer(1)]],
                       device const float* logits [[buffer(2)]],
                       device const uchar* gate [[buffer(3)]],
                       device const typename F::type* gate_scales [[buffer(4), function_constant(has_gate_scales)]],
                       device const typename F::type* gate_biases [[buffer(5), function_constant(has_gate_biases)]],
                       device const uchar* up [[buffer(6)]],
                       device const typename F::type* up_scales [[buffer(7), function_constant(has_up_scales)]],
                       device const typename F::type* up_biases [[buffer(8), function_constant(has_up_biases)]],
                       device const uchar* shared_gate [[buffer(9)]],
                       device const typename F::type* shared_gate_scales [[buffer(10), function_constant(has_shared_gate_scales)]],
                       device const typename F::type* shared_gate_biases [[buffer(11), function_constant(has_shared_gate_biases)]],
                       device const uchar* shared_up [[buffer(12)]],
                       device const typename F::type* shared_up_scales [[buffer(13), function_constant(has_shared_up_scales)]],
                       device const typename F::type* shared_up_biases [[buffer(14), function_constant(has_shared_up_biases)]],
                       device uint* ids [[buffer(15)]],
                       device float* weights [[buffer(16)]],
                       device float* h [[buffer(17)]],
                       constant moe_route_gate_up_args& a [[buffer(24)]],
                       uint3 tg [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float ups[COLUMNS];
	const uint r = tg.y / a.slots, k = tg.y % a.slots, j = tg.x * COLUMNS;
	if (r >= a.rows || j >= a.ffn) return;

	const bool is_up = sg != 0, is_shared = k == a.top_k;
	WeightRow<F> w;
	w.scales = nullptr;
	w.biases = nullptr;
	if (is_shared) {
		w.values = is_up ? shared_up : shared_gate;
		if (has_shared_gate_scales) w.scales = shared_gate_scales;
		if (has_shared_gate_biases) w.biases = shared_gate_biases;
		if (has_shared_up_scales) w.scales = is_up ? shared_up_scales : w.scales;
		if (has_shared_up_biases) w.biases = is_up ? shared_up_biases : w.biases;
		move_rows(w, j, a.in_dim);
	} else {
		const bool writes = k == 0 && j == 0;
		const uint rounds = writes ? a.top_k : k + 1;
		const ChosenExpert mine = choose_experts(logits + size_t(r) * a.logit_stride, a.experts, rounds, lane);
		const uint expert = simd_shuffle(mine.id, ushort(k));
		if (writes) {
			const float weight = softmax_over_lanes(mine.value, mine.top, lane < a.top_k);
			if (sg == 0 && lane < a.top_k) {
				ids[size_t(r) * a.top_k + lane] = mine.id;
				weights[size_t(r) * a.top_k + lane] = weight;
			}
		}
		w.values = is_up ? up : gate;
		if (has_gate_scales) w.scales = gate_scales;
		if (has_gate_biases) w.biases = gate_biases;
		if (has_up_scales) w.scales = is_up ? up_scales : w.scales;
		if (has_up_biases) w.biases = is_up ? up_biases : w.biases;
		move_rows(w, size_t(expert) * (is_up ? a.up_rows : a.gate_rows) + (is_up ? a.up_row : a.gate_row) + j, a.in_dim);
	}

	const uint last = a.ffn - j - 1;
	WeighedRows<1> row = {x + r * a.in_dim, w_norm, a.in_dim, {}};
	float sums[COLUMNS] = {};
	add_lane_dots_of<1>(w, last, row, a.in_dim, lane, sums);
	const float sum = sum_lanes<COLUMNS>(sums, lane) * inverse_norm(row.squares[0], a.in_dim, a.eps);
	store_silu_products(sum, is_up, ups, last, h + size_t(tg.y) * a.ffn + j, lane);
}

#define X(v) LW_KERNEL(moe_route_gate_up__##v, moe_route_gate_up<format::v>)
LW_VARIANTS_moe_route_gate_up(X)
