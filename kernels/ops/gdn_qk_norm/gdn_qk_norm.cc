// qk[r,i,h,d] = x[d] / sqrt(sum_d(x[d]^2) + eps), times headDim^-0.5 for i = 0 (q); x is head i*kHeads+h of
// conv's row. One task takes one row.
#include "kernels/shared/gdn_head.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_qk_norm) {
	const auto& a = *static_cast<const gdn_qk_norm_args*>(args_);
	const auto* conv = static_cast<const float*>(slots[gdn_qk_norm_slot::conv]);
	auto* qk = static_cast<float*>(slots[gdn_qk_norm_slot::qk]);
	const uint32_t n = a.head_dim;
	const size_t width = size_t(2) * a.k_heads * n;
	const float q_factor = gdn_q_factor(n);
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* x = conv + size_t(r) * a.channels;
		float* y = qk + size_t(r) * width;
		for (uint32_t h = 0; h < 2 * a.k_heads; h++, x += n, y += n) unit_length(y, x, n, a.eps, h < a.k_heads ? q_factor : 1.f);
	}
}

}  // namespace LW_CPU_NAMESPACE
