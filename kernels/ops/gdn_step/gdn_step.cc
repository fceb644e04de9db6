// For each row r in order, with S = gdnState[h] ([v][k]), q and k of the value head's key head:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; o[r,h] = S q.
// The v rows of S are independent: one task takes TILE of them through all rows, so each is read from and
// written to memory once, and a row gets the bits that it gets alone.
#include "kernels/shared/gdn.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t TILE = 16;  // op.ts counts tasks by it
// Rows of S in flight: enough chains of multiply-adds to hide their latency, in the registers there are.
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr uint32_t BLOCK = 8;
#else
constexpr uint32_t BLOCK = 4;
#endif
static_assert(TILE % BLOCK == 0 && BLOCK % 4 == 0, "blocks of whole quads divide a tile");

// BLOCK rows of S through one token; headDim is a multiple of LANES. v and out have BLOCK elements.
inline void step_block(float* s, uint32_t n, const float* q, const float* k, const float* v, float* out, float decay, float beta) {
	vf m[BLOCK] = {};
	for (uint32_t j = 0; j < n; j += LANES) {
		vf kj = load(k + j);
		for (uint32_t i = 0; i < BLOCK; i++) m[i] = fma(load(s + i * n + j), kj, m[i]);
	}
	vf d[BLOCK], o[BLOCK] = {};
	for (uint32_t i = 0; i < BLOCK; i += 4) {
		vf4 delta = beta * (load_as<vf4>(v + i) - decay * sum4(m[i], m[i + 1], m[i + 2], m[i + 3]));
		for (uint32_t l = 0; l < 4; l++) d[i + l] = splat(delta[l]);
	}
	const vf keep = splat(decay);
	for (uint32_t j = 0; j < n; j += LANES) {
		vf kj = load(k + j), qj = load(q + j);
		for (uint32_t i = 0; i < BLOCK; i++) {
			vf updated = fma(d[i], kj, keep * load(s + i * n + j));
			store(s + i * n + j, updated);
			o[i] = fma(updated, qj, o[i]);
		}
	}
	for (uint32_t i = 0; i < BLOCK; i += 4) store_as(out + i, sum4(o[i], o[i + 1], o[i + 2], o[i + 3]));
}

}  // namespace

LW_CPU_KERNEL(gdn_step) {
	const gdn_layout a = gdn_of<gdn_step_args>(args_, slots);
	if (!a.fits()) return;
	const uint32_t n = a.dim, tiles = n / TILE;
	for (uint32_t task = begin; task < end; task++) {
		const uint32_t h = task / tiles, v0 = task % tiles * TILE;
		if (h >= a.v_heads) break;
		const uint32_t key_head = a.key_head(h);
		for (uint32_t r = 0; r < a.rows; r++) {
			const float *q = a.q(r, key_head), *k = a.k(r, key_head), *v = a.v(r, h) + v0;
			float* o = a.out(r, h) + v0;
			const float decay = exp(splat(a.g[a.gate(r, h)]))[0], beta = a.beta[a.gate(r, h)];
			for (uint32_t i = 0; i < TILE; i += BLOCK) step_block(a.state_row(h, v0 + i), n, q, k, v + i, o + i, decay, beta);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
