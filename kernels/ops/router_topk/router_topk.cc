// ids[r,:] = the topK greatest of logits[r, 0:experts], in descending order, ties to the lower index;
// weights[r,:] = softmax over the chosen logits, which is softmax over all, renormalised. Infinities count as
// the greatest float, NaN as the lowest. One task takes one row. topK <= 32, topK <= experts <= logitStride.
#include "kernels/shared/router.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(router_topk) {
	const auto& a = *static_cast<const router_topk_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[router_topk_slot::logits]);
	auto* ids = static_cast<uint32_t*>(slots[router_topk_slot::ids]);
	auto* weights = static_cast<float*>(slots[router_topk_slot::weights]);
	for (uint32_t r = begin; r < end && r < a.rows; r++)
		choose_experts(logits + size_t(r) * a.logit_stride, a.experts, a.top_k, ids + size_t(r) * a.top_k,
		               weights + size_t(r) * a.top_k);
}

}  // namespace LW_CPU_NAMESPACE
