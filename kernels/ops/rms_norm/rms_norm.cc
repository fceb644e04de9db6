// y[r,d] = x[r,d] / sqrt(mean_d(x[r,d]^2) + eps) * w[d]. One task normalises one row.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(rms_norm) {
	const auto& a = *static_cast<const rms_norm_args*>(args_);
	const auto* x = static_cast<const float*>(slots[rms_norm_slot::x]);
	const auto* w = static_cast<const float*>(slots[rms_norm_slot::w]);
	auto* y = static_cast<float*>(slots[rms_norm_slot::y]);
	const uint32_t dim = a.dim;
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* xr = x + size_t(r) * dim;
		float* yr = y + size_t(r) * dim;
		vf s0 = zero(), s1 = zero();
		uint32_t d = 0;
		for (; d + 2 * LANES <= dim; d += 2 * LANES) {
			vf v0 = load(xr + d), v1 = load(xr + d + LANES);
			s0 = fma(v0, v0, s0);
			s1 = fma(v1, v1, s1);
		}
		for (; d < dim; d += LANES) {
			vf v = load_n(xr + d, dim - d < LANES ? dim - d : LANES);
			s0 = fma(v, v, s0);
		}
		vf scale = splat(1.f / std::sqrt(sum(s0 + s1) / float(dim) + a.eps));
		for (d = 0; d < dim; d += LANES) {
			int n = dim - d < LANES ? dim - d : LANES;
			store_n(yr + d, load_n(xr + d, n) * scale * load_n(w + d, n), n);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
