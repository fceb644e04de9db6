// What kernels that choose a row's experts, or weigh those chosen, share: which numbers logits stand for, the choice, and
// the softmax over the lanes of a simdgroup.
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

// What a lane k gets of the choice, and the greatest value of all.
struct ChosenExpert {
	float value, top;
	uint id;
};

// The first `rounds` of x[0:experts] in descending order, ties to the lower index, one for each lane, by one simdgroup.
// Each lane offers the best of its experts lane, lane + 32, ...; in each round the best offer is chosen, and the lane that
// made it looks for its next one. 0 < rounds <= 32, rounds <= experts.
inline ChosenExpert choose_experts(device const float* x, uint experts, uint rounds, uint lane) {
	// Behind every expert in the order of choice: the lowest value, the highest index.
	constexpr uint NONE = 0xffffffffu;
	float best = -GREATEST;
	uint best_id = NONE;
	for (uint e = lane; e < experts; e += SIMD) {
		const float v = finite_logit(x[e]);
		if (v > best || best_id == NONE) {
			best = v;
			best_id = e;
		}
	}
	ChosenExpert mine = {0.0f, 0.0f, 0};
	for (uint k = 0; k < rounds; k++) {
		const float chosen = simd_max(best);
		const uint chosen_id = simd_min(best == chosen ? best_id : NONE);
		if (k == 0) mine.top = chosen;
		if (lane == k) {
			mine.value = chosen;
			mine.id = chosen_id;
		}
		if (best_id == chosen_id) {
			best = -GREATEST;
			best_id = NONE;
			for (uint e = lane; e < experts; e += SIMD) {
				const float v = finite_logit(x[e]);
				// Chosen already are those above, and equal ones with a lower index.
				const bool open = v < chosen || (v == chosen && e > chosen_id);
				if (open && (v > best || best_id == NONE)) {
					best = v;
					best_id = e;
				}
			}
		}
	}
	return mine;
}
