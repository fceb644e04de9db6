// COLUMNS columns of what experts give for one row, by one threadgroup. Pairs of gate and up sums come from two simdgroups;
// weighed sums of several experts come from all of them, each with experts of its own.
#pragma once
#include "kernels/shared/metal/dot.h"

// to[c] = silu(gate sum c) * up sum c for c <= last. The first simdgroup holds the gate sums as sum_lanes gives them, the
// second (`is_up`) those of up; ups: COLUMNS places.
inline void store_silu_products(float sum, bool is_up, threadgroup float* ups, uint last, device float* to, uint lane) {
	const uint c = lane / (SIMD / COLUMNS);
	const bool owner = lane % (SIMD / COLUMNS) == 0;
	if (is_up && owner) ups[c] = sum;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (!is_up && owner && c <= last) to[c] = silu(sum) * ups[c];
}

// sums[c] += weight * what this lane has of row c of w times h.
template <typename F>
inline void add_weighed_dots(thread const WeightRow<F>& w, uint last, device const float* h, uint ffn, float weight, uint lane,
                             thread float* sums) {
	float dots[COLUMNS] = {};
	add_lane_dots<1>(w, last, h, ffn, lane, dots);
	LW_UNROLL
	for (uint c = 0; c < COLUMNS; c++) sums[c] = fma(weight, dots[c], sums[c]);
}

// Thread c < COLUMNS gets sum c over all lanes of all simdgroups, added in their order; parts: COLUMNS places a simdgroup.
template <uint SIMDGROUPS>
inline float sum_simdgroups(thread float* sums, threadgroup float* parts, uint tid, uint lane, uint sg) {
	const float sum = sum_lanes<COLUMNS>(sums, lane);
	if (lane % (SIMD / COLUMNS) == 0) parts[sg * COLUMNS + lane / (SIMD / COLUMNS)] = sum;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (tid >= COLUMNS) return 0.0f;
	float total = parts[tid];
	LW_UNROLL
	for (uint s = 1; s < SIMDGROUPS; s++) total += parts[s * COLUMNS + tid];
	return total;
}
