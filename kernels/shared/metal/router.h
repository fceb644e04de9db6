// What kernels that weigh a row's chosen experts share: which numbers logits stand for, and the softmax over the lanes
// of a simdgroup.
#pragma once
#include "kernels/shared/metal/base.h"

constant constexpr float GREATEST = 3.402823466e+38f;

// Infinities count as the greatest float or the lowest, NaN as the lowest.
inline float finite_logit(float x) { return !(x >= -GREATEST) ? -GREATEST : x > GREATEST ? GREATEST : x; }

// exp(x - top) / sum over the lanes that count, zero elsewhere; top >= x.
inline float softmax_over_lanes(float x, float top, bool counts) {
	const float term = counts ? precise::exp(x - top) : 0.0f;
	const float total = simd_sum(term);
	return total > 0.0f ? term / total : 0.0f;
}
