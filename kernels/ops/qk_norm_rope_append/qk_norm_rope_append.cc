// A row of qkv is, for each query head, query and gate (headDim each), then the keys, then the values of
// all key heads. For row r at position p = pos + r:
//   q[r,h] = rope(rms(query) * qNorm), kCache[g,p] = rope(rms(key) * kNorm), vCache[g,p] = value,
//   rms(x) = x / sqrt(mean(x^2) + eps), rope: (a, b) = (x[j], x[j + rotHalf]) ->
//   (a cos t - b sin t, b cos t + a sin t), t = f32(p) * invFreq[j] rounded to f32.
// One task does one row, so that its angles are computed once. A position outside the caches is not
// appended.
#include "kernels/shared/attention.h"
#include "kernels/shared/sum_squares.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

constexpr uint32_t HEAD_DIM_MAX = 512;

struct RowScratch {
	alignas(64) float cosines[HEAD_DIM_MAX / 2];
	alignas(64) float sines[HEAD_DIM_MAX / 2];
	alignas(64) float head[HEAD_DIM_MAX];
};

static void norm_rope(const float* x, const float* w, float eps, uint32_t dim, uint32_t half, const RowScratch& s, float* y) {
	norm_row(y, x, w, eps, dim);
	for (uint32_t j = 0; j < half; j += LANES) {
		const int n = half - j < uint32_t(LANES) ? int(half - j) : LANES;
		vf a = load_n(y + j, n), b = load_n(y + j + half, n), c = load_n(s.cosines + j, n), i = load_n(s.sines + j, n);
		store_n(y + j, a * c - b * i, n);
		store_n(y + j + half, b * c + a * i, n);
	}
}

template <class R> static void append(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const qk_norm_rope_append_args*>(args_);
	const auto* qkv = static_cast<const float*>(slots[qk_norm_rope_append_slot::qkv]);
	const auto* qNorm = static_cast<const float*>(slots[qk_norm_rope_append_slot::q_norm]);
	const auto* kNorm = static_cast<const float*>(slots[qk_norm_rope_append_slot::k_norm]);
	const auto* invFreq = static_cast<const float*>(slots[qk_norm_rope_append_slot::inv_freq]);
	const uint32_t pos = static_cast<const uint32_t*>(slots[qk_norm_rope_append_slot::step])[LW_STEP_POS];
	auto* q = static_cast<float*>(slots[qk_norm_rope_append_slot::q]);
	auto* kCache = static_cast<uint8_t*>(slots[qk_norm_rope_append_slot::k_cache]);
	auto* vCache = static_cast<uint8_t*>(slots[qk_norm_rope_append_slot::v_cache]);
	auto& s = *static_cast<RowScratch*>(scratch);
	const uint32_t dim = a.head_dim, half = a.rot_half;
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const uint64_t p = uint64_t(pos) + r;
		for (uint32_t j = 0; j < half; j++) {
			const float angle = float(p) * invFreq[j];
			s.cosines[j] = float(std::cos(double(angle)));
			s.sines[j] = float(std::sin(double(angle)));
		}
		const float* x = qkv + size_t(r) * a.qkv_width;
		for (uint32_t h = 0; h < a.q_heads; h++)
			norm_rope(x + size_t(2) * h * dim, qNorm, a.eps, dim, half, s, q + (size_t(r) * a.q_heads + h) * dim);
		if (p >= a.ctx) continue;
		const float* keys = x + size_t(2) * a.q_heads * dim;
		const float* values = keys + size_t(a.kv_heads) * dim;
		for (uint32_t g = 0; g < a.kv_heads; g++) {
			const size_t at = R::bytes(dim) * (size_t(g) * a.ctx + p);
			norm_rope(keys + size_t(g) * dim, kNorm, a.eps, dim, half, s, s.head);
			R::narrow(s.head, dim, kCache + at);
			R::narrow(values + size_t(g) * dim, dim, vCache + at);
		}
	}
}

LW_CPU_KERNEL(qk_norm_rope_append__f32) { append<DenseRow<F32>>(args_, slots, begin, end, scratch); }
LW_CPU_KERNEL(qk_norm_rope_append__f16) { append<DenseRow<F16>>(args_, slots, begin, end, scratch); }
LW_CPU_KERNEL(qk_norm_rope_append__bf16) { append<DenseRow<BF16>>(args_, slots, begin, end, scratch); }
LW_CPU_KERNEL(qk_norm_rope_append__q8) { append<Q8Row>(args_, slots, begin, end, scratch); }

}  // namespace LW_CPU_NAMESPACE
