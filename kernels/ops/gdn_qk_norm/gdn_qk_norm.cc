// qk[r,i,h,d] = x[d] / sqrt(sum_d(x[d]^2) + eps), times headDim^-0.5 for i = 0 (q); x is head i*kHeads+h of
// conv's row. One task takes one row.
#include "kernels/shared/sum_squares.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_qk_norm) {
	const auto& a = *static_cast<const gdn_qk_norm_args*>(args_);
	const auto* conv = static_cast<const float*>(slots[gdn_qk_norm_slot::conv]);
	auto* qk = static_cast<float*>(slots[gdn_qk_norm_slot::qk]);
	const uint32_t n = a.head_dim;
	const size_t width = size_t(2) * a.k_heads * n;
	const float q_scale = 1.f / std::sqrt(float(n));
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* x = conv + size_t(r) * a.channels;
		float* y = qk + size_t(r) * width;
		for (uint32_t h = 0; h < 2 * a.k_heads; h++, x += n, y += n) {
			float scale = 1.f / std::sqrt(sum_squares(x, n) + a.eps);
			if (h < a.k_heads) scale *= q_scale;
			vf s = splat(scale);
			uint32_t d = 0;
			for (; d + LANES <= n; d += LANES) store(y + d, load(x + d) * s);
			if (d < n) store_n(y + d, load_n(x + d, int(n - d)) * s, int(n - d));
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
