// For each row r in order, with S = gdnState[h] ([v][k]), q and k of the value head's key head:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; o[r,h] = S q.
// The v rows of S are independent: one task takes TILE of them through all rows, so each is read from and
// written to memory once, and a row gets the bits that it gets alone.
#include "kernels/shared/gdn.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t TILE = 16;  // op.ts counts tasks by it
constexpr uint32_t QUAD = 4;

// QUAD rows of S through one token; headDim is a multiple of LANES. Rows are walked side by side, which no
// hardware prefetcher follows, so the first token asks for the next tile line by line in address order.
template <bool FIRST> inline vf4 step_quad(float* s, uint32_t n, const float* q, const float* k, vf4 v, float decay, float beta) {
	const char* next = reinterpret_cast<const char*>(uintptr_t(s) + sizeof(float) * TILE * n);
	vf m[QUAD] = {};
	for (uint32_t j = 0; j < n; j += LANES) {
		vf kj = load(k + j);
		for (uint32_t i = 0; i < QUAD; i++) m[i] = fma(load(s + i * n + j), kj, m[i]);
		if (FIRST)
			for (size_t line = 0; line < QUAD * LANES * sizeof(float); line += 64) __builtin_prefetch(next + j * QUAD * sizeof(float) + line);
	}
	vf4 delta = beta * (v - decay * sum4(m[0], m[1], m[2], m[3]));
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

}  // namespace

LW_CPU_KERNEL(gdn_step) {
	const gdn_layout a = gdn_of<gdn_step_args>(args_, slots);
	const uint32_t n = a.dim, tiles = n / TILE;
	for (uint32_t task = begin; task < end; task++) {
		const uint32_t h = task / tiles, v0 = task % tiles * TILE;
		if (h >= a.v_heads) break;
		const uint32_t key_head = a.key_head(h);
		for (uint32_t r = 0; r < a.rows; r++) {
			const float *q = a.q(r, key_head), *k = a.k(r, key_head), *v = a.v(r, h) + v0;
			float* o = a.out(r, h) + v0;
			const float decay = exp(splat(a.g[a.gate(r, h)]))[0], beta = a.beta[a.gate(r, h)];
			for (uint32_t i = 0; i < TILE; i += QUAD) {
				float* s = a.state_row(h, v0 + i);
				vf4 vi = load_as<vf4>(v + i);
				store_as(o + i, r == 0 ? step_quad<true>(s, n, q, k, vi, decay, beta) : step_quad<false>(s, n, q, k, vi, decay, beta));
			}
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
