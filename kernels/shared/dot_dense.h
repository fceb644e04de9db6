// f32 activations against rows of f32, f16 or bf16 weights (see weight_rows.h). One sum of LANES lanes runs along
// the whole row.
#pragma once
#include "kernels/shared/lanes.h"
#include "kernels/shared/weight_rows.h"

namespace LW_CPU_NAMESPACE {

// The first n bytes of a vector, zeros behind them.
template <class V> static inline V load_part(const uint8_t* p, size_t n) {
	V v = {};
	memcpy(&v, p, n);
	return v;
}

// Prefetches p + at where a cache line of the stream that starts at p begins.
static inline void prefetch_line(const uint8_t* p, size_t at) {
	if (at % 64 == 0) __builtin_prefetch(p + at);
}

template <class T> class DenseDot {
	typedef typename T::storage E;
	typedef typename std::conditional<sizeof(E) == 4, vf, vh>::type V;
	uint32_t in_dim_;

	size_t padded() const { return (size_t(in_dim_) + LANES - 1) / LANES * LANES; }

public:
	DenseDot(uint32_t in_dim, uint32_t) : in_dim_(in_dim) {}
	size_t row_bytes() const { return in_dim_ * sizeof(E); }
	size_t scale_bytes() const { return 0; }
	size_t prepared_bytes() const { return padded() * sizeof(float); }
	void prepare(const float* x, void* to) const {
		float* y = static_cast<float*>(to);
		memcpy(y, x, in_dim_ * sizeof(float));
		memset(y + in_dim_, 0, (padded() - in_dim_) * sizeof(float));
	}

	template <uint32_t O, uint32_t R>
	void dot(const WeightRow* rows, const uint8_t* ahead, const char* x, size_t stride, float* out) const {
		vf sums[O * R] = {};
		for (uint32_t i = 0; i < padded(); i += LANES) {
			vf xs[R];
			LW_UNROLL for (uint32_t r = 0; r < R; r++) xs[r] = load(reinterpret_cast<const float*>(x + r * stride) + i);
			const bool whole = i + LANES <= in_dim_;
			LW_UNROLL for (uint32_t o = 0; o < O; o++) {
				const uint8_t* p = rows[o].values + i * sizeof(E);
				const V v = whole ? load_as<V>(p) : load_part<V>(p, (in_dim_ - i) * sizeof(E));
				const vf w = T::get_v(reinterpret_cast<const E*>(&v));
				prefetch_line(ahead, (i * O + o * LANES) * sizeof(E));
				LW_UNROLL for (uint32_t r = 0; r < R; r++) sums[o * R + r] = fma(w, xs[r], sums[o * R + r]);
			}
		}
		LW_UNROLL for (uint32_t i = 0; i < O * R; i += 4) store_as(out + i, sum4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
	}
};

}  // namespace LW_CPU_NAMESPACE
