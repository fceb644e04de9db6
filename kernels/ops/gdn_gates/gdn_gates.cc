// beta[r,h] = sigmoid(proj[r,bCol+h]); g[r,h] = negA[h] * softplus(proj[r,aCol+h] + dtBias[h]).
// One task takes one row. A few values a token: scalar, so that small g keep their relative accuracy.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_gates) {
	const auto& a = *static_cast<const gdn_gates_args*>(args_);
	const auto* proj = static_cast<const float*>(slots[gdn_gates_slot::proj]);
	const auto* neg_a = static_cast<const float*>(slots[gdn_gates_slot::neg_a]);
	const auto* dt_bias = static_cast<const float*>(slots[gdn_gates_slot::dt_bias]);
	auto* beta = static_cast<float*>(slots[gdn_gates_slot::beta]);
	auto* g = static_cast<float*>(slots[gdn_gates_slot::g]);
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* p = proj + size_t(r) * a.proj_stride;
		for (uint32_t h = 0; h < a.v_heads; h++) {
			size_t at = size_t(r) * a.v_heads + h;
			beta[at] = 1.f / (1.f + std::exp(-p[a.b_col + h]));
			float x = p[a.a_col + h] + load_as<float>(dt_bias + h);
			float softplus = (x > 0.f ? x : 0.f) + std::log1p(std::exp(-std::fabs(x)));
			g[at] = load_as<float>(neg_a + h) * softplus;
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
