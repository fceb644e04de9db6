// ids[r,:] = the topK greatest of logits[r, 0:experts], in descending order, ties to the lower index;
// weights[r,:] = softmax over the chosen logits, which is softmax over all, renormalised. Infinities count as
// the greatest float, NaN as the lowest. One task takes one row. topK <= 32, topK <= experts <= logitStride.
#include <cfloat>

#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t TOP_K_MAX = 32;

inline float finite(float x) {
	if (!(x >= -FLT_MAX)) return -FLT_MAX;
	return x > FLT_MAX ? FLT_MAX : x;
}

}  // namespace

LW_CPU_KERNEL(router_topk) {
	const auto& a = *static_cast<const router_topk_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[router_topk_slot::logits]);
	auto* ids = static_cast<uint32_t*>(slots[router_topk_slot::ids]);
	auto* weights = static_cast<float*>(slots[router_topk_slot::weights]);
	const uint32_t k = a.top_k;
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* x = logits + size_t(r) * a.logit_stride;
		float value[TOP_K_MAX] = {};
		uint32_t* id = ids + size_t(r) * k;
		uint32_t n = 0;
		for (uint32_t e = 0; e < a.experts; e++) {
			float v = finite(x[e]);
			// An equal value that came earlier stays in front.
			if (n == k && !(v > value[k - 1])) continue;
			uint32_t at = n < k ? n++ : k - 1;
			for (; at > 0 && v > value[at - 1]; at--) {
				value[at] = value[at - 1];
				id[at] = id[at - 1];
			}
			value[at] = v;
			id[at] = e;
		}
		float total = 0, top = value[0];
		for (uint32_t i = 0; i < TOP_K_MAX; i += LANES) store(value + i, exp(load(value + i) - top));
		for (uint32_t i = 0; i < k; i++) total += value[i];
		for (uint32_t i = 0; i < k; i++) weights[size_t(r) * k + i] = value[i] / total;
	}
}

}  // namespace LW_CPU_NAMESPACE
