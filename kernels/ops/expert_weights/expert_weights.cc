// weights[r,:] = softmax over logits[r, ids[r,:]]; an id beyond the experts has weight 0. Infinities count as the
// greatest float, NaN as the lowest, as in router_topk. One task takes one row. topK <= 32.
#include "kernels/shared/router.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(expert_weights) {
	const auto& a = *static_cast<const expert_weights_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[expert_weights_slot::logits]);
	const auto* ids = static_cast<const uint32_t*>(slots[expert_weights_slot::ids]);
	auto* weights = static_cast<float*>(slots[expert_weights_slot::weights]);
	const uint32_t k = a.top_k;
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* x = logits + size_t(r) * a.logit_stride;
		const uint32_t* id = ids + size_t(r) * k;
		float value[TOP_K_MAX] = {}, top = -FLT_MAX, total = 0;
		for (uint32_t i = 0; i < k; i++) {
			if (id[i] >= a.experts) continue;
			value[i] = finite_logit(x[id[i]]);
			top = value[i] > top ? value[i] : top;
		}
		for (uint32_t i = 0; i < TOP_K_MAX; i += LANES) store(value + i, exp(load(value + i) - top));
		for (uint32_t i = 0; i < k; i++) {
			if (id[i] >= a.experts) value[i] = 0;
			total += value[i];
		}
		for (uint32_t i = 0; i < k; i++) weights[size_t(r) * k + i] = total > 0 ? value[i] / total : 0;
	}
}

}  // namespace LW_CPU_NAMESPACE
