// What surrounds the recurrence of the gated delta net: the gates of a row, a head vector made of unit length, and the
// gated norm of a head. Ops apart and the ops that join them take it from here, so that both have the same bits.
#pragma once
#include "kernels/shared/sum_squares.h"

namespace LW_CPU_NAMESPACE {

// beta[h] = sigmoid(b[h]); g[h] = neg_a[h] * softplus(a[h] + dt_bias[h]).
// A few values a row: scalar, so that small g keep their relative accuracy.
static inline void gdn_gates_of_row(const float* b, const float* a, const float* neg_a, const float* dt_bias, uint32_t v_heads, float* beta, float* g) {
	for (uint32_t h = 0; h < v_heads; h++) {
		beta[h] = 1.f / (1.f + std::exp(-b[h]));
		float x = a[h] + load_as<float>(dt_bias + h);
		float softplus = (x > 0.f ? x : 0.f) + std::log1p(std::exp(-std::fabs(x)));
		g[h] = load_as<float>(neg_a + h) * softplus;
	}
}

// y[d] = x[d] / sqrt(sum_d(x[d]^2) + eps) * factor.
static inline void unit_length(float* y, const float* x, uint32_t n, float eps, float factor) {
	const vf s = splat(1.f / std::sqrt(sum_squares(x, n) + eps) * factor);
	uint32_t d = 0;
	for (; d + LANES <= n; d += LANES) store(y + d, load(x + d) * s);
	if (d < n) store_n(y + d, load_n(x + d, int(n - d)) * s, int(n - d));
}
// By which q is longer than k.
static inline float gdn_q_factor(uint32_t head_dim) { return 1.f / std::sqrt(float(head_dim)); }

// y[d] = x[d] / sqrt(mean_d(x[d]^2) + eps) * w[d] * silu(z[d]); y may be x.
static inline void gated_norm(float* y, const float* x, const float* w, const float* z, uint32_t n, float eps) {
	const vf scale = splat(1.f / std::sqrt(sum_squares(x, n) / float(n) + eps));
	uint32_t d = 0;
	for (; d + LANES <= n; d += LANES) store(y + d, load(x + d) * scale * load(w + d) * silu(load(z + d)));
	if (d < n) {
		const int left = int(n - d);
		store_n(y + d, load_n(x + d, left) * scale * load_n(w + d, left) * silu(load_n(z + d, left)), left);
	}
}

}  // namespace LW_CPU_NAMESPACE
