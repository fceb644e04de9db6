// The RMS norm of one row, and sum_d x[d]^2 in f32, always in the same order: what must agree between ops.
#pragma once
#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

static inline float sum_squares(const float* x, uint32_t n) {
	vf s0 = zero(), s1 = zero(), s2 = zero(), s3 = zero();
	uint32_t d = 0;
	for (; d + 4 * LANES <= n; d += 4 * LANES) {
		vf a = load(x + d), b = load(x + d + LANES), c = load(x + d + 2 * LANES), e = load(x + d + 3 * LANES);
		s0 = fma(a, a, s0);
		s1 = fma(b, b, s1);
		s2 = fma(c, c, s2);
		s3 = fma(e, e, s3);
	}
	for (; d + LANES <= n; d += LANES) {
		vf a = load(x + d);
		s0 = fma(a, a, s0);
	}
	if (d < n) {
		vf a = load_n(x + d, int(n - d));
		s1 = fma(a, a, s1);
	}
	return sum((s0 + s1) + (s2 + s3));
}

// y[d] = x[d] * scale * w[d].
static inline void scale_row(float* y, const float* x, const float* w, float scale, uint32_t n) {
	vf s = splat(scale);
	uint32_t d = 0;
	for (; d + LANES <= n; d += LANES) store(y + d, load(x + d) * s * load(w + d));
	if (d < n) store_n(y + d, load_n(x + d, int(n - d)) * s * load_n(w + d, int(n - d)), int(n - d));
}

// y[d] = x[d] / sqrt(mean_d(x[d]^2) + eps) * w[d].
static inline void norm_row(float* y, const float* x, const float* w, float eps, uint32_t n) {
	scale_row(y, x, w, 1.f / std::sqrt(sum_squares(x, n) / float(n) + eps), n);
}

}  // namespace LW_CPU_NAMESPACE
