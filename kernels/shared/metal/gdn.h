// What the kernels of the gated delta net share: where the vectors of a row and a value head lie in the tensors of
// gdn_step and gdn_chunk, and one simdgroup's pass over a head vector.
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

// Sum of squares, the same in every lane; held[m] = x[lane + 32 m].
inline float hold_squares(device const float* x, uint n, uint lane, thread float* held) {
	float sum = 0.0f;
	for (uint m = 0; m < HELD; m++) {
		const uint d = lane + m * SIMD;
		held[m] = d < n ? x[d] : 0.0f;
	}
	for (uint m = 0; m < HELD; m++) sum = fma(held[m], held[m], sum);
	for (uint d = lane + HELD * SIMD; d < n; d += SIMD) sum = fma(x[d], x[d], sum);
	return simd_sum(sum);
}
