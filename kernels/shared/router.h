// The choice of a row's experts, the same wherever it is made.
#pragma once
#include <cfloat>

#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

constexpr uint32_t TOP_K_MAX = 32;

static inline float finite_logit(float x) {
	if (!(x >= -FLT_MAX)) return -FLT_MAX;
	return x > FLT_MAX ? FLT_MAX : x;
}

// ids[0:top_k] = the greatest of logits[0:experts], in descending order, ties to the lower index; weights[0:top_k] =
// softmax over them. Infinities count as the greatest float, NaN as the lowest. top_k <= TOP_K_MAX, top_k <= experts.
static inline void choose_experts(const float* logits, uint32_t experts, uint32_t top_k, uint32_t* ids, float* weights) {
	float value[TOP_K_MAX] = {};
	uint32_t n = 0;
	for (uint32_t e = 0; e < experts; e++) {
		const float v = finite_logit(logits[e]);
		// An equal value that came earlier stays in front.
		if (n == top_k && !(v > value[top_k - 1])) continue;
		uint32_t at = n < top_k ? n++ : top_k - 1;
		for (; at > 0 && v > value[at - 1]; at--) {
			value[at] = value[at - 1];
			ids[at] = ids[at - 1];
		}
		value[at] = v;
		ids[at] = e;
	}
	float total = 0, top = value[0];
	for (uint32_t i = 0; i < TOP_K_MAX; i += LANES) store(value + i, exp(load(value + i) - top));
	for (uint32_t i = 0; i < top_k; i++) total += value[i];
	for (uint32_t i = 0; i < top_k; i++) weights[i] = value[i] / total;
}

}  // namespace LW_CPU_NAMESPACE
