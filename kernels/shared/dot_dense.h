// f32 activations against rows of f32, f16 or bf16 weights (see weight_rows.h). One sum of LANES lanes runs along
// the whole row.
#pragma once
#include "kernels/shared/lanes.h"
#include "kernels/shared/weight_rows.h"

namespace LW_CPU_NAMESPACE {

template <class T> class DenseDot {
	typedef typename T::storage E;
	uint32_t in_dim_;

	size_t padded() const { return (size_t(in_dim_) + LANES - 1) / LANES * LANES; }

	// O of the TILE_ROWS rows: as many sums as registers hold.
	template <uint32_t O, uint32_t R>
	void part(const WeightRow* rows, const WeightRow* ahead, const char* x, size_t stride, float* out) const {
		vf sums[O * R] = {};
		const uint32_t whole = in_dim_ / LANES * LANES;
		for (uint32_t i = 0; i < padded(); i += LANES) {
			vf xs[R];
			LW_UNROLL for (uint32_t r = 0; r < R; r++) xs[r] = load(reinterpret_cast<const float*>(x + r * stride) + i);
			LW_UNROLL for (uint32_t o = 0; o < O; o++) {
				const uint8_t* p = rows[o].values + i * sizeof(E);
				E tail[LANES] = {};
				if (i == whole) memcpy(tail, p, (in_dim_ - whole) * sizeof(E)), p = reinterpret_cast<const uint8_t*>(tail);
				const vf w = T::get_v(reinterpret_cast<const E*>(p));
				__builtin_prefetch(ahead[o].values + i * sizeof(E));
				LW_UNROLL for (uint32_t r = 0; r < R; r++) sums[o * R + r] = fma(w, xs[r], sums[o * R + r]);
			}
		}
		LW_UNROLL for (uint32_t i = 0; i < O * R; i += 4) store_as(out + i, sum4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
	}

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
	template <uint32_t R>
	void dot(const WeightRow* rows, const WeightRow* ahead, const char* x, size_t stride, float* out) const {
		constexpr uint32_t O = R == WIDEST_DOT ? TILE_ROWS / 2 : TILE_ROWS;
		for (uint32_t o = 0; o < TILE_ROWS; o += O) part<O, R>(rows + o, ahead + o, x, stride, out + o * R);
	}
};

}  // namespace LW_CPU_NAMESPACE
