// ids[r,:] = the top_k greatest of logits[r, 0:experts], in descending order, ties to the lower index; weights[r,:] =
// softmax over the chosen logits, which is softmax over all, renormalised. Infinities count as the greatest float,
// NaN as the lowest. A threadgroup is one simdgroup and does a row. No threadgroup memory.
// top_k <= 32, top_k <= experts.
#include "kernels/shared/metal/router.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_router_topk)]]
void router_topk(device const float* logits [[buffer(0)]],
                 device uint* ids [[buffer(1)]],
                 device float* weights [[buffer(2)]],
                 constant router_topk_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint lane [[thread_index_in_simdgroup]]) {
	const uint r = tg.x;
	if (r >= a.rows) return;
	device const float* x = logits + size_t(r) * a.logit_stride;
	const ChosenExpert mine = choose_experts(x, a.experts, a.top_k, lane);
	const float weight = softmax_over_lanes(mine.value, mine.top, lane < a.top_k);
	if (lane < a.top_k) {
		ids[size_t(r) * a.top_k + lane] = mine.id;
		weights[size_t(r) * a.top_k + lane] = weight;
	}
}
