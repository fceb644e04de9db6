// y[r,h,d] = o[r,h,d] / sqrt(mean_d(o[r,h,d]^2) + eps) * w[d] * silu(z), z = proj[r, zCol + h*headDim + d].
// One task takes one head of one row.
#include "kernels/shared/gdn_head.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gated_rms_norm) {
	const auto& a = *static_cast<const gated_rms_norm_args*>(args_);
	const auto* o = static_cast<const float*>(slots[gated_rms_norm_slot::o]);
	const auto* proj = static_cast<const float*>(slots[gated_rms_norm_slot::proj]);
	const auto* w = static_cast<const float*>(slots[gated_rms_norm_slot::w]);
	auto* y = static_cast<float*>(slots[gated_rms_norm_slot::y]);
	const uint32_t n = a.head_dim;
	const uint64_t tasks = uint64_t(a.rows) * a.v_heads;
	for (uint32_t task = begin; task < end && task < tasks; task++) {
		const uint32_t r = task / a.v_heads, h = task % a.v_heads;
		const size_t at = size_t(task) * n;
		gated_norm(y + at, o + at, w, proj + size_t(r) * a.proj_stride + a.z_col + size_t(h) * n, n, a.eps);
	}
}

}  // namespace LW_CPU_NAMESPACE
