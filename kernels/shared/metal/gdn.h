// What the kernels of the gated delta net share: where the vectors of a row and a value head lie in the tensors of
// gdn_step and gdn_chunk, the gates, and one simdgroup's pass over a head vector. Ops apart and the ops that join them
// take it from here, so that both have the same bits.
#pragma once
#include "kernels/shared/metal/base.h"

template <typename ARGS>
inline uint gdn_key_head(const constant ARGS& a, uint h) {
	return a.head_map == 1 ? h % a.k_heads : h / (a.v_heads / a.k_heads);
}
// Elements from the start of qk to q of row 0, from q to k of the same row, and from a row to the next.
template <typename ARGS>
inline size_t gdn_q_at(const constant ARGS& a, uint h) {
	return size_t(gdn_key_head(a, h)) * a.head_dim;
}
template <typename ARGS>
inline size_t gdn_q_to_k(const constant ARGS& a) {
	return size_t(a.k_heads) * a.head_dim;
}
template <typename ARGS>
inline size_t gdn_qk_stride(const constant ARGS& a) {
	return 2 * gdn_q_to_k(a);
}
// v of row 0 in conv, whose rows are `channels` apart.
template <typename ARGS>
inline size_t gdn_v_at(const constant ARGS& a, uint h) {
	return (2 * size_t(a.k_heads) + h) * a.head_dim;
}
// o of row 0; rows are gdn_o_stride apart.
template <typename ARGS>
inline size_t gdn_o_at(const constant ARGS& a, uint h) {
	return size_t(h) * a.head_dim;
}
template <typename ARGS>
inline size_t gdn_o_stride(const constant ARGS& a) {
	return size_t(a.v_heads) * a.head_dim;
}
// Row v of the state of head h: head_dim keys.
template <typename ARGS>
inline size_t gdn_state_at(const constant ARGS& a, uint h, uint v) {
	return (size_t(h) * a.head_dim + v) * a.head_dim;
}

// A head vector of n elements, lanes side by side: the first HELD of a lane stay in registers, so that all loads of
// a vector of up to 256 elements are under way at once and none is repeated.
constant constexpr uint HELD = 8;

// This lane's share of the sum of squares.
inline float squares_held(const thread float* held) {
	float sum = 0.0f;
	for (uint m = 0; m < HELD; m++) sum = fma(held[m], held[m], sum);
	return sum;
}
// Sum of squares, the same in every lane; held[m] = x[lane + 32 m].
inline float hold_squares(device const float* x, uint n, uint lane, thread float* held) {
	for (uint m = 0; m < HELD; m++) {
		const uint d = lane + m * SIMD;
		held[m] = d < n ? x[d] : 0.0f;
	}
	float sum = squares_held(held);
	for (uint d = lane + HELD * SIMD; d < n; d += SIMD) sum = fma(x[d], x[d], sum);
	return simd_sum(sum);
}

// What makes a head of q or k of unit length, and q shorter by sqrt(headDim).
inline float unit_scale(float squares, float eps, bool is_q, uint head_dim) {
	const float scale = precise::rsqrt(squares + eps);
	return is_q ? scale * (1.0f / precise::sqrt(float(head_dim))) : scale;
}

// out[d] = x[d] / sqrt(mean_d(x[d]^2) + eps) * w[d] * silu(z[d]) of n elements; out may be x.
inline void gated_norm(device const float* x, device const float* w, device const float* z, device float* out, uint n,
                       float eps, uint lane) {
	// The gates do not wait for the sum.
	float held[HELD];
	float gate[HELD];
	for (uint m = 0; m < HELD; m++) {
		const uint d = lane + m * SIMD;
		gate[m] = d < n ? w[d] * silu(z[d]) : 0.0f;
	}
	const float scale = precise::rsqrt(hold_squares(x, n, lane, held) / float(n) + eps);
	for (uint m = 0; m < HELD; m++)
		if (lane + m * SIMD < n) out[lane + m * SIMD] = held[m] * scale * gate[m];
	for (uint d = lane + HELD * SIMD; d < n; d += SIMD) out[d] = x[d] * scale * (w[d] * silu(z[d]));
}

// log(1 + u) for 0 <= u <= 1 as 2 atanh(s), s = u / (2 + u) <= 1/3. It keeps the relative accuracy of small u, which
// the logarithm of a rounded 1 + u loses; the first term left out is below 2e-9 of the sum.
inline float log1p_of_fraction(float u) {
	const float s = u / (2.0f + u), z = s * s;
	float p = 1.0f / 17.0f;
	p = fma(p, z, 1.0f / 15.0f);
	p = fma(p, z, 1.0f / 13.0f);
	p = fma(p, z, 1.0f / 11.0f);
	p = fma(p, z, 1.0f / 9.0f);
	p = fma(p, z, 1.0f / 7.0f);
	p = fma(p, z, 1.0f / 5.0f);
	p = fma(p, z, 1.0f / 3.0f);
	p = fma(p, z, 1.0f);
	return 2.0f * s * p;
}

inline float softplus(float x) { return max(x, 0.0f) + log1p_of_fraction(precise::exp(-fabs(x))); }

inline float gdn_log_decay(float a, float neg_a, float dt_bias) { return neg_a * softplus(a + dt_bias); }

// beta[r,h] = sigmoid(proj[r,bCol+h]); g[r,h] = negA[h] * softplus(proj[r,aCol+h] + dtBias[h]); at = r * vHeads + h.
template <typename ARGS>
inline void gdn_gates_at(uint at, device const float* proj, device const float* neg_a, device const float* dt_bias,
                         device float* beta, device float* g, const constant ARGS& a) {
	const uint r = at / a.v_heads, h = at % a.v_heads;
	if (r >= a.rows) return;
	device const float* row = proj + size_t(r) * a.proj_stride;
	beta[at] = sigmoid(row[a.b_col + h]);
	g[at] = gdn_log_decay(row[a.a_col + h], neg_a[h], dt_bias[h]);
}
