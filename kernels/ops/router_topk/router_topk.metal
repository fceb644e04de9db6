// ids[r,:] = the top_k greatest of logits[r, 0:experts], in descending order, ties to the lower index; weights[r,:] =
// softmax over the chosen logits, which is softmax over all, renormalised. Infinities count as the greatest float,
// NaN as the lowest. A threadgroup is one simdgroup and does a row. No threadgroup memory.
// Each lane offers the best of its experts lane, lane + 32, ...; in each of top_k rounds the best offer is chosen, and
// the lane that made it looks for its next one. top_k <= 32, top_k <= experts.
#include "kernels/shared/metal/router.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_router_topk)]]
void router_topk(device const float* logits [[buffer(0)]],
                 device uint* ids [[buffer(1)]],
                 device float* weights [[buffer(2)]],
                 constant router_topk_args& a [[buffer(16)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint lane [[thread_index_in_simdgroup]]) {
	const uint r = tg.x;
	if (r >= a.rows) return;
	device const float* x = logits + size_t(r) * a.logit_stride;
	// Behind every expert in the order of choice: the lowest value, the highest index.
	constexpr uint NONE = 0xffffffffu;

	float best = -GREATEST;
	uint best_id = NONE;
	for (uint e = lane; e < a.experts; e += SIMD) {
		const float v = finite_logit(x[e]);
		if (v > best || best_id == NONE) {
			best = v;
			best_id = e;
		}
	}
	float value = 0.0f, top = 0.0f;
	uint id = 0;
	for (uint k = 0; k < a.top_k; k++) {
		const float chosen = simd_max(best);
		const uint chosen_id = simd_min(best == chosen ? best_id : NONE);
		if (k == 0) top = chosen;
		if (lane == k) {
			value = chosen;
			id = chosen_id;
		}
		if (best_id == chosen_id) {
			best = -GREATEST;
			best_id = NONE;
			for (uint e = lane; e < a.experts; e += SIMD) {
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
	const float weight = softmax_over_lanes(value, top, lane < a.top_k);
	if (lane < a.top_k) {
		ids[size_t(r) * a.top_k + lane] = id;
		weights[size_t(r) * a.top_k + lane] = weight;
	}
}
