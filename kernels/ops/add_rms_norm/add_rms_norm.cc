// x[r,d] += delta[r,d]; y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d]. One task takes one row.
// The norm is that of the stored f32 sum: the bits are those of an addition followed by rms_norm.
#include "kernels/shared/sum_squares.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(add_rms_norm) {
	const auto& a = *static_cast<const add_rms_norm_args*>(args_);
	auto* x = static_cast<float*>(slots[add_rms_norm_slot::x]);
	const auto* delta = static_cast<const float*>(slots[add_rms_norm_slot::delta]);
	const auto* w = static_cast<const float*>(slots[add_rms_norm_slot::w]);
	auto* y = static_cast<float*>(slots[add_rms_norm_slot::y]);
	const uint32_t dim = a.dim;
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		float* xr = x + size_t(r) * dim;
		const float* dr = delta + size_t(r) * dim;
		uint32_t d = 0;
		for (; d + LANES <= dim; d += LANES) store(xr + d, load(xr + d) + load(dr + d));
		if (d < dim) store_n(xr + d, load_n(xr + d, int(dim - d)) + load_n(dr + d, int(dim - d)), int(dim - d));
		norm_row(y + size_t(r) * dim, xr, w, a.eps, dim);
	}
}

}  // namespace LW_CPU_NAMESPACE
