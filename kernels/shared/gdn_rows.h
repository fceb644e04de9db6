// The recurrence of gdn_step, which gdn_verify and gdn_commit must repeat bit by bit: a tile of rows of one value head's
// state through tokens in order. gdn_verify works out o and d, gdn_commit changes the state by d.
#pragma once
#include "kernels/shared/gdn.h"

namespace LW_CPU_NAMESPACE {

// Rows of the state that a task takes; the ops count tasks by it.
constexpr uint32_t GDN_TILE = 16;
constexpr uint32_t QUAD = 4;

// Rows of S are walked side by side, which no hardware prefetcher follows, so the first token asks for the next tile line
// by line in address order, where the walk through QUAD rows is at key j.
static inline void prefetch_tile(const float* quad, uint32_t n, uint32_t j) {
	const char* next = reinterpret_cast<const char*>(uintptr_t(quad) + sizeof(float) * GDN_TILE * n) + j * QUAD * sizeof(float);
	for (size_t line = 0; line < QUAD * LANES * sizeof(float); line += 64) __builtin_prefetch(next + line);
}

// QUAD rows of S through one token; headDim is a multiple of LANES.
template <bool FIRST> static inline vf4 step_quad(float* s, uint32_t n, const float* q, const float* k, vf4 v, float decay, float beta, float* delta_out) {
	vf m[QUAD] = {};
	for (uint32_t j = 0; j < n; j += LANES) {
		vf kj = load(k + j);
		for (uint32_t i = 0; i < QUAD; i++) m[i] = fma(load(s + i * n + j), kj, m[i]);
		if (FIRST) prefetch_tile(s, n, j);
	}
	vf4 delta = beta * (v - decay * sum4(m[0], m[1], m[2], m[3]));
	if (delta_out) store_as(delta_out, delta);
	vf o[QUAD] = {}, d[QUAD];
	for (uint32_t i = 0; i < QUAD; i++) d[i] = splat(delta[i]);
	const vf keep = splat(decay);
	for (uint32_t j = 0; j < n; j += LANES) {
		vf kj = load(k + j), qj = load(q + j);
		for (uint32_t i = 0; i < QUAD; i++) {
			vf updated = fma(d[i], kj, keep * load(s + i * n + j));
			store(s + i * n + j, updated);
			o[i] = fma(updated, qj, o[i]);
		}
	}
	return sum4(o[0], o[1], o[2], o[3]);
}

// With s the GDN_TILE rows of S = gdnState[h] from v0 on, for rows r in order:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; out(r) = S q; delta(r), unless null, = d.
template <class Out, class Delta> static void gdn_tile(const gdn_layout& a, uint32_t h, uint32_t v0, float* s, uint32_t rows, Out out, Delta delta) {
	const uint32_t n = a.dim, key_head = a.key_head(h);
	for (uint32_t r = 0; r < rows; r++) {
		const float *q = a.q(r, key_head), *k = a.k(r, key_head), *v = a.v(r, h) + v0;
		float *o = out(r), *d = delta(r);
		const float decay = exp(splat(a.g[a.gate(r, h)]))[0], beta = a.beta[a.gate(r, h)];
		for (uint32_t i = 0; i < GDN_TILE; i += QUAD) {
			float* quad = s + size_t(i) * n;
			vf4 vi = load_as<vf4>(v + i);
			float* di = d ? d + i : nullptr;
			store_as(o + i, r == 0 ? step_quad<true>(quad, n, q, k, vi, decay, beta, di) : step_quad<false>(quad, n, q, k, vi, decay, beta, di));
		}
	}
}
template <class Out> static void gdn_tile(const gdn_layout& a, uint32_t h, uint32_t v0, float* s, uint32_t rows, Out out) {
	gdn_tile(a, h, v0, s, rows, out, [](uint32_t) { return static_cast<float*>(nullptr); });
}

// What gdn_tile does to the state, where d is known: delta(r) = d, S = exp(g[r,h]) S + d k^T.
template <class Delta> static void gdn_apply(const gdn_layout& a, uint32_t h, float* s, uint32_t rows, Delta delta) {
	const uint32_t n = a.dim, key_head = a.key_head(h);
	for (uint32_t r = 0; r < rows; r++) {
		const float *k = a.k(r, key_head), *d = delta(r);
		const vf keep = exp(splat(a.g[a.gate(r, h)]));
		for (uint32_t i = 0; i < GDN_TILE; i += QUAD) {
			float* quad = s + size_t(i) * n;
			vf di[QUAD];
			for (uint32_t u = 0; u < QUAD; u++) di[u] = splat(d[i + u]);
			for (uint32_t j = 0; j < n; j += LANES) {
				vf kj = load(k + j);
				for (uint32_t u = 0; u < QUAD; u++) store(quad + u * n + j, fma(di[u], kj, keep * load(quad + u * n + j)));
				if (r == 0) prefetch_tile(quad, n, j);
			}
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
