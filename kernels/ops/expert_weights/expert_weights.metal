// weights[r,:] = softmax over logits[r, ids[r,:]]; an id beyond the experts has weight 0. Infinities count as the
// greatest float, NaN as the lowest, as in router_topk. A threadgroup is one simdgroup and does a row, each lane one of
// its ids. No threadgroup memory. top_k <= 32.
#include "kernels/shared/metal/router.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_expert_weights)]]
void expert_weights(device const float* logits [[buffer(0)]],
                    device const uint* ids [[buffer(1)]],
                    device float* weights [[buffer(2)]],
                    constant expert_weights_args& a [[buffer(24)]],
                    uint3 tg [[threadgroup_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
	const uint r = tg.x;
	if (r >= a.rows) return;
	const uint id = lane < a.top_k ? ids[size_t(r) * a.top_k + lane] : a.experts;
	const bool counts = id < a.experts;
	const float value = counts ? finite_logit(logits[size_t(r) * a.logit_stride + id]) : -GREATEST;
	const float weight = softmax_over_lanes(value, simd_max(value), counts);
	if (lane < a.top_k) weights[size_t(r) * a.top_k + lane] = weight;
}
