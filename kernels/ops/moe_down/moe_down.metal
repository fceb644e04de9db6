// y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), e = ids[r,k]; an expert outside adds nothing.
// A threadgroup does COLUMNS of d for one row: its simdgroups share out the row's experts, k = sg, sg + simdgroups, ...
// ascending, each lane sums its parts of all of them, and the sums of the simdgroups are added in their order.
// Threadgroup memory: 4 * COLUMNS bytes a simdgroup.
#include "kernels/shared/metal/expert_columns.h"

constant constexpr uint SIMDGROUPS = LW_THREADS_moe_down / SIMD;

constant bool has_down_scales [[function_constant(4)]];
constant bool has_down_biases [[function_constant(5)]];

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_down)]]
void moe_down(device const float* h [[buffer(0)]],
              device const uint* ids [[buffer(1)]],
              device const float* weights [[buffer(2)]],
              device const uchar* down [[buffer(3)]],
              device const typename F::type* down_scales [[buffer(4), function_constant(has_down_scales)]],
              device const typename F::type* down_biases [[buffer(5), function_constant(has_down_biases)]],
              device float* y [[buffer(6)]],
              constant moe_down_args& a [[buffer(24)]],
              uint3 tg [[threadgroup_position_in_grid]],
              uint tid [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float parts[SIMDGROUPS * COLUMNS];
	const uint d = tg.x * COLUMNS, row = tg.y;
	if (d >= a.dim || row >= a.rows) return;
	const uint last = a.dim - d - 1;

	float sums[COLUMNS] = {};
	for (uint k = sg; k < a.top_k; k += SIMDGROUPS) {
		const uint pair = row * a.top_k + k, expert = ids[pair];
		if (expert >= a.experts) continue;
		WeightRow<F> w;
		w.values = down;
		w.scales = nullptr;
		w.biases = nullptr;
		if (has_down_scales) w.scales = down_scales;
		if (has_down_biases) w.biases = down_biases;
		move_rows(w, size_t(expert) * a.dim + d, a.ffn);
		add_weighed_dots(w, last, h + size_t(pair) * a.ffn, a.ffn, weights[pair], lane, sums);
	}

	const float total = sum_simdgroups<SIMDGROUPS>(sums, parts, tid, lane, sg);
	if (tid < COLUMNS && tid <= last) y[size_t(row) * a.dim + d + tid] = total;
}

#define X(v) LW_KERNEL(moe_down__##v, moe_down<format::v>)
LW_VARIANTS_moe_down(X)
