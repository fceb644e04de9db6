// y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d]. One task normalises one row.
#include "kernels/shared/sum_squares.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(rms_norm) {
	const auto& a = *static_cast<const rms_norm_args*>(args_);
	const auto* x = static_cast<const float*>(slots[rms_norm_slot::x]);
	const auto* w = static_cast<const float*>(slots[rms_norm_slot::w]);
	auto* y = static_cast<float*>(slots[rms_norm_slot::y]);
	const uint32_t dim = a.dim;
	for (uint32_t r = begin; r < end && r < a.rows; r++)
		norm_row(y + size_t(r) * dim, x + size_t(r) * dim, w, a.eps, dim);
}

}  // namespace LW_CPU_NAMESPACE
