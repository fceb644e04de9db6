// beta[r,h] = sigmoid(proj[r,bCol+h]); g[r,h] = negA[h] * softplus(proj[r,aCol+h] + dtBias[h]).
// One task takes one row.
#include "kernels/shared/gdn_head.h"
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
		const size_t at = size_t(r) * a.v_heads;
		gdn_gates_of_row(p + a.b_col, p + a.a_col, neg_a, dt_bias, a.v_heads, beta + at, g + at);
	}
}

}  // namespace LW_CPU_NAMESPACE
