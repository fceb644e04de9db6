// The greatest of many values: the lowest index of the maximum, NaN passed over. Owns no sampling.
#pragma once
#include <limits>

#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

constexpr float LOWEST = -std::numeric_limits<float>::infinity();

// The maximum of x[0..n-1]; LOWEST when there is none above it.
static inline float max_of(const float* x, uint32_t n) {
	vf m0 = splat(LOWEST), m1 = m0;
	uint32_t i = 0;
	// The new value first: max() keeps its second operand when the first one is NaN.
	for (; i + 2 * LANES <= n; i += 2 * LANES) {
		m0 = max(load(x + i), m0);
		m1 = max(load(x + i + LANES), m1);
	}
	float m = hmax(max(m0, m1));
	for (; i < n; i++) m = x[i] > m ? x[i] : m;
	return m;
}

// Index of the maximum; 0 when all are NaN or n is 0.
static inline uint32_t argmax_of(const float* x, uint32_t n) {
	constexpr uint32_t BLOCK = 1024;
	float best = LOWEST;
	uint32_t at = n;
	for (uint32_t i = 0; i < n; i += BLOCK) {
		float m = max_of(x + i, n - i < BLOCK ? n - i : BLOCK);
		if (m > best) {
			best = m;
			at = i;
		}
	}
	// Nothing above -inf: the first -inf.
	if (at == n) at = 0;
	while (at < n && !(x[at] == best)) at++;
	return at < n ? at : 0;
}

}  // namespace LW_CPU_NAMESPACE
