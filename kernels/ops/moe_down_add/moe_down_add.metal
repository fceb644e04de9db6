// x[r,d] += sum_k weights[r,k] * (down[e,d] . h[r,k]) + sigmoid(logits[r,gate_col]) * (shared_down[d] . h[r,top_k]),
// e = ids[r,k], k < top_k; an expert outside adds nothing.
// A threadgroup does COLUMNS of d for one row: its simdgroups share out the row's experts, of which the shared one is the
// last, k = sg, sg + simdgroups, ... ascending, each lane sums its parts of all of them, and the sums of the simdgroups are
// added in their order. Three simdgroups have three each of eight experts and a shared one.
// slots = top_k + 1. Threadgroup memory: 4 * COLUMNS bytes a simdgroup.
#include "kernels/shared/metal/expert_columns.h"

constant constexpr uint SIMDGROUPS = LW_THREADS_moe_down_add / SIMD;

constant bool has_down_scales [[function_constant(5)]];
constant bool has_down_biases [[function_constant(6)]];
constant bool has_shared_down_scales [[function_constant(8)]];
constant bool has_shared_down_biases [[function_constant(9)]];

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_down_add)]]
void moe_down_add(device const float* h [[buffer(0)]],
                  device const uint* ids [[buffer(1)]],
                  device const float* weights [[buffer(2)]],
                  device const float* logits [[buffer(3)]],
                  device const uchar* down [[buffer(4)]],
                  device const typename F::type* down_scales [[buffer(5), function_constant(has_down_scales)]],
                  device const typename F::type* down_biases [[buffer(6), function_constant(has_down_biases)]],
                  device const uchar* shared_down [[buffer(7)]],
                  device const typename F::type* shared_down_scales [[buffer(8), function_constant(has_shared_down_scales)]],
                  device const typename F::type* shared_down_biases [[buffer(9), function_constant(has_shared_down_biases)]],
                  device float* x [[buffer(10)]],
                  constant moe_down_add_args& a [[buffer(24)]],
                  uint3 tg [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]],
                  uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float parts[SIMDGROUPS * COLUMNS];
	const uint d = tg.x * COLUMNS, r = tg.y;
	if (d >= a.dim || r >= a.rows) return;
	const uint last = a.dim - d - 1;

	float sums[COLUMNS] = {};
	for (uint k = sg; k <= a.top_k; k += SIMDGROUPS) {
		const bool is_shared = k == a.top_k;
		const uint expert = is_shared ? 0 : ids[r * a.top_k + k];
		if (expert >= a.experts) continue;
		WeightRow<F> w;
		w.values = is_shared ? shared_down : down;
		w.scales = nullptr;
		w.biases = nullptr;
		if (has_down_scales) w.scales = down_scales;
		if (has_down_biases) w.biases = down_biases;
		if (has_shared_down_scales) w.scales = is_shared ? shared_down_scales : w.scales;
		if (has_shared_down_biases) w.biases = is_shared ? shared_down_biases : w.biases;
		move_rows(w, size_t(expert) * a.dim + d, a.ffn);
		const float weight = is_shared ? sigmoid(logits[size_t(r) * a.logit_stride + a.gate_col]) : weights[r * a.top_k + k];
		add_weighed_dots(w, last, h + (size_t(r) * a.slots + k) * a.ffn, a.ffn, weight, lane, sums);
	}

	const float total = sum_simdgroups<SIMDGROUPS>(sums, parts, tid, lane, sg);
	if (tid < COLUMNS && tid <= last) x[size_t(r) * a.dim + d + tid] += total;
}

#define X(v) LW_KERNEL(moe_down_add__##v, moe_down_add<format::v>)
LW_VARIANTS_moe_down_add(X)
