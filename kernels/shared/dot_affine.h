// f32 activations against rows of affine codes (see weight_rows.h):
//   sum_i x[i] * (scale * q[i] + bias) = sum_groups scale * (sum of x * q) + bias * (sum of x).
// A block is LANES words of codes, CODES in a word. Code i of every word is masked where it stands, which is
// q * 2^(BITS * i), and converted; x is stored as code i meets it: times 2^-(BITS * i), lane l from word l. Both
// factors are powers of two, so products are those of x and q. Scales come for LANES groups at a time.
#pragma once
#include "kernels/shared/dot_dense.h"

namespace LW_CPU_NAMESPACE {

// The first n of LANES scales, zeros behind them.
template <class S> static inline vf load_scales(const uint8_t* p, uint32_t n) {
	uint16_t h[LANES];
#if defined(__AVX512F__)
	_mm256_storeu_si256((__m256i*)h, _mm256_maskz_loadu_epi16(uint16_t((1u << n) - 1), p));
#else
	if (n == LANES) memcpy(h, p, sizeof h);
	else memset(h, 0, sizeof h), memcpy(h, p, 2 * n);
#endif
	return S::get_v(h);
}

// Geometry of rows of codes in words, and the loop over scales and blocks that every dot of codes has.
template <int BITS, class S> struct AffineRows {
	static constexpr uint32_t CODES = 32 / BITS;
	static constexpr uint32_t BLOCK = CODES * LANES;
	uint32_t in_dim, group;

	uint32_t words() const { return in_dim / CODES; }
	uint32_t groups() const { return in_dim / group; }
	uint32_t blocks() const { return (words() + LANES - 1) / LANES; }

	// bias(g, o, biases of LANES groups from g), block(b, v[O] words, scales[O] of the lanes).
	template <uint32_t O, class Bias, class Block>
	inline void walk(const WeightRow* rows, const uint8_t* ahead, Bias bias, Block block) const {
		const uint32_t group_words = group / CODES, n_words = words(), n_groups = groups(), n_blocks = blocks();
		const int shift = __builtin_ctz(group_words);
		uint32_t b = 0;
		for (uint32_t g = 0; g < n_groups; g += LANES) {
			const uint32_t n = n_groups - g < LANES ? n_groups - g : LANES;
			vf scales[O];
			LW_UNROLL for (uint32_t o = 0; o < O; o++) {
				scales[o] = load_scales<S>(rows[o].scales + 2 * g, n);
				bias(g, o, load_scales<S>(rows[o].biases + 2 * g, n));
			}
			// LANES groups are group_words blocks.
			const uint32_t last = b + group_words < n_blocks ? b + group_words : n_blocks;
			for (uint32_t first = 0; b < last; b++, first += LANES) {
				vu v[O];
				vf lane_scales[O];
				const bool whole = (b + 1) * LANES <= n_words;
				LW_UNROLL for (uint32_t o = 0; o < O; o++) {
					const uint8_t* p = rows[o].values + size_t(b) * LANES * 4;
					v[o] = whole ? load_as<vu>(p) : load_part<vu>(p, (n_words - b * LANES) * 4);
					lane_scales[o] = repeat_lanes(scales[o], first, shift);
					prefetch_line(ahead, size_t(b * O + o) * LANES * 4);
				}
				block(b, v, lane_scales);
			}
		}
	}
};

template <int BITS, class S> class AffineDot {
	typedef AffineRows<BITS, S> Rows;
	static constexpr uint32_t CODES = Rows::CODES, BLOCK = Rows::BLOCK;
	Rows w_;

	static inline vf code(vu v, uint32_t i) {
		const vu q = i == CODES - 1 ? v >> (32 - BITS) : v & (((1u << BITS) - 1) << (BITS * i));
		return __builtin_convertvector((vi)q, vf);
	}

public:
	AffineDot(uint32_t in_dim, uint32_t group) : w_{in_dim, group} {}
	size_t row_bytes() const { return size_t(w_.words()) * 4; }
	size_t scale_bytes() const { return size_t(w_.groups()) * 2; }
	// Values by block, then the sum of each group.
	size_t prepared_bytes() const { return (size_t(w_.blocks()) * (BLOCK + LANES) + 2 * LANES) * sizeof(float); }

	void prepare(const float* x, void* to) const {
		float* y = static_cast<float*>(to);
		float* sums = y + size_t(w_.blocks()) * BLOCK;
		for (uint32_t b = 0; b < w_.blocks(); b++, y += BLOCK) {
			const uint32_t left = w_.in_dim - b * BLOCK;
			vf v[CODES];
			LW_UNROLL for (uint32_t i = 0; i < CODES; i++) {
				const uint32_t at = i * LANES;
				v[i] = at + LANES <= left ? load(x + size_t(b) * BLOCK + at) : at < left ? load_n(x + size_t(b) * BLOCK + at, int(left - at)) : zero();
			}
			// Each round moves the lowest bit of an element's number to the top: after log2(CODES) of them
			// the code's number within its word selects the vector.
			LW_UNROLL for (uint32_t round = 1; round < CODES; round *= 2) {
				vf t[CODES];
				LW_UNROLL for (uint32_t i = 0; i < CODES / 2; i++) {
					t[i] = even_lanes(v[2 * i], v[2 * i + 1]);
					t[i + CODES / 2] = odd_lanes(v[2 * i], v[2 * i + 1]);
				}
				LW_UNROLL for (uint32_t i = 0; i < CODES; i++) v[i] = t[i];
			}
			vf s = v[0];
			LW_UNROLL for (uint32_t i = 1; i < CODES; i++) s = s + v[i];
			store(sums + size_t(b) * LANES, s);
			float factor = 1;
			LW_UNROLL for (uint32_t i = 0; i < CODES; i++) {
				store(y + i * LANES, i == CODES - 1 ? v[i] : v[i] * factor);
				factor *= 1.f / (1 << BITS);
			}
		}
		uint32_t n = w_.blocks() * LANES;
		for (uint32_t width = CODES; width < w_.group; width *= 2) n = fold_pairs(sums, n);
	}

	template <uint32_t O, uint32_t R>
	void dot(const WeightRow* rows, const uint8_t* ahead, const char* x, size_t stride, float* out) const {
		const float* xr[R];
		for (uint32_t r = 0; r < R; r++) xr[r] = reinterpret_cast<const float*>(x + r * stride);
		const size_t sums_at = size_t(w_.blocks()) * BLOCK;
		vf sums[O * R] = {};
		w_.template walk<O>(
		    rows, ahead,
		    [&](uint32_t g, uint32_t o, vf bias) {
			    LW_UNROLL for (uint32_t r = 0; r < R; r++) sums[o * R + r] = fma(bias, load(xr[r] + sums_at + g), sums[o * R + r]);
		    },
		    [&](uint32_t b, const vu* v, const vf* scales) {
			    vf acc[O * R];
			    LW_UNROLL for (uint32_t i = 0; i < CODES; i++) {
				    vf q[O];
				    LW_UNROLL for (uint32_t o = 0; o < O; o++) q[o] = code(v[o], i);
				    LW_UNROLL for (uint32_t r = 0; r < R; r++) {
					    const vf xs = load(xr[r] + size_t(b) * BLOCK + i * LANES);
					    LW_UNROLL for (uint32_t o = 0; o < O; o++) {
						    vf& a = acc[o * R + r];
						    a = i == 0 ? q[o] * xs : fma(q[o], xs, a);
					    }
				    }
			    }
			    LW_UNROLL for (uint32_t i = 0; i < O * R; i++) sums[i] = fma(acc[i], scales[i / R], sums[i]);
		    });
		LW_UNROLL for (uint32_t i = 0; i < O * R; i += 4) store_as(out + i, sum4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
	}
};

// The dot of f32 activations with a weight format.
template <class F> struct ExactDot {
	typedef typename std::conditional<F::bits == 0, DenseDot<typename F::type>, AffineDot<F::bits ? F::bits : 4, typename F::type>>::type type;
};

}  // namespace LW_CPU_NAMESPACE
