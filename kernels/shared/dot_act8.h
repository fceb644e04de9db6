// int8 activations (kernels/formats/act8.ts) against rows of affine codes (see weight_rows.h):
//   sum over lanes of (weight scale * activation scale) * (integer sum of codes), + bias * (sum of activations).
// A block is LANES words of weight codes as in dot_affine.h. A lane multiplies the 8 or 4 codes of its word, which
// share both scales: groups of weights have 16 elements or more, those of activations 32. Integer sums are exact,
// so instruction sets differ only in the order of f32 additions.
#pragma once
#include "kernels/shared/dot_affine.h"

namespace LW_CPU_NAMESPACE {

// One activation row: codes in split order for 4-bit weights, in_dim / 32 scales and sums.
struct Act8Row {
	const int8_t* codes;
	const float *scales, *sums;
};

// Lane l: sum over the four bytes of word l of w (unsigned) * x (signed).
static inline vi dot_bytes(vu w, vu x) {
#if defined(__AVX512VNNI__)
	return (vi)_mm512_dpbusd_epi32(_mm512_setzero_si512(), (__m512i)w, (__m512i)x);
#elif defined(__ARM_FEATURE_DOTPROD)
	// Both signed: codes less 128, and 128 times the sum of x back.
	const int32x4_t zeros = vdupq_n_s32(0);
	const int8x16_t xs = vreinterpretq_s8_u32((uint32x4_t)x), ws = vreinterpretq_s8_u32((uint32x4_t)(w ^ 0x80808080u));
	return (vi)vsubq_s32(vdotq_s32(zeros, ws, xs), vdotq_s32(zeros, vdupq_n_s8(-128), xs));
#else
	// Products of 16 bits, even and odd bytes: two of 255 * 128 do not fit into 16 bits, but into 32.
	const vu we = w & 0x00ff00ffu, wo = w >> 8 & 0x00ff00ffu;
#if defined(__AVX2__)
	const __m256i xe = _mm256_srai_epi16(_mm256_slli_epi16((__m256i)x, 8), 8), xo = _mm256_srai_epi16((__m256i)x, 8);
	return (vi)_mm256_add_epi32(_mm256_madd_epi16((__m256i)we, xe), _mm256_madd_epi16((__m256i)wo, xo));
#elif defined(__SSE2__)
	const __m128i xe = _mm_srai_epi16(_mm_slli_epi16((__m128i)x, 8), 8), xo = _mm_srai_epi16((__m128i)x, 8);
	return (vi)_mm_add_epi32(_mm_madd_epi16((__m128i)we, xe), _mm_madd_epi16((__m128i)wo, xo));
#else
	const vi s = (vi)x;
	return (vi)(we & 0xffff) * ((vi)(x << 24) >> 24) + (vi)(wo & 0xffff) * ((vi)(x << 16) >> 24) +
	       (vi)(we >> 16) * ((vi)(x << 8) >> 24) + (vi)(wo >> 16) * (s >> 24);
#endif
#endif
}

// Lane l: sum over the eight nibbles of word l of w: the low ones times the bytes of `low`, the high ones times `high`.
static inline vi dot_nibbles(vu w, vu low, vu high) {
	const vu wl = w & 0x0f0f0f0fu, wh = w >> 4 & 0x0f0f0f0fu;
#if defined(__AVX512VNNI__)
	return (vi)_mm512_dpbusd_epi32((__m512i)dot_bytes(wl, low), (__m512i)wh, (__m512i)high);
#elif defined(__AVX2__)
	// 4 * 15 * 128 fits into 16 bits.
	const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)wl, (__m256i)low), _mm256_maddubs_epi16((__m256i)wh, (__m256i)high));
	return (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__ARM_FEATURE_DOTPROD)
	const int32x4_t a = vdotq_s32(vdupq_n_s32(0), vreinterpretq_s8_u32((uint32x4_t)wl), vreinterpretq_s8_u32((uint32x4_t)low));
	return (vi)vdotq_s32(a, vreinterpretq_s8_u32((uint32x4_t)wh), vreinterpretq_s8_u32((uint32x4_t)high));
#else
	return dot_bytes(wl, low) + dot_bytes(wh, high);
#endif
}

template <int BITS, class S> class Act8Dot {
	typedef AffineRows<BITS, S> Rows;
	static constexpr uint32_t CODES = Rows::CODES;
	// A prepared block: codes that meet low nibbles, those that meet high ones (4 bits only), the lanes' scales.
	static constexpr uint32_t CODE_BYTES = CODES * LANES, BLOCK_BYTES = CODE_BYTES + 4 * LANES;
	// Words of weights that meet activations of one scale: 2^SCALE_SHIFT.
	static constexpr int SCALE_SHIFT = BITS == 4 ? 2 : 3;
	Rows w_;

	static inline vi multiply(vu v, const char* block) {
		if constexpr (BITS == 4) return dot_nibbles(v, load_as<vu>(block), load_as<vu>(block + 4 * LANES));
		else return dot_bytes(v, load_as<vu>(block));
	}

	// Sums of 16 elements, which the 32 of `sums` do not tell.
	void sums_of_16(const Act8Row& x, float* to) const {
		for (uint32_t g = 0; g < w_.in_dim / 16; g++) {
			const int8_t* c = x.codes + (BITS == 4 ? g / 4 * 64 + g % 4 * 8 : g * 16);
			int s = 0;
			for (uint32_t i = 0; i < 8; i++) s += c[i] + c[i + (BITS == 4 ? 32 : 8)];
			to[g] = float(s) * x.scales[g / 2];
		}
	}

public:
	Act8Dot(uint32_t in_dim, uint32_t group) : w_{in_dim, group} {}
	size_t row_bytes() const { return size_t(w_.words()) * 4; }
	size_t scale_bytes() const { return size_t(w_.groups()) * 2; }
	// Blocks, then the sum of each group of weights.
	size_t prepared_bytes() const {
		const size_t sums = size_t(w_.in_dim) / 16 + 2 * LANES;
		return size_t(w_.blocks()) * BLOCK_BYTES + (sums + LANES - 1) / LANES * LANES * sizeof(float);
	}

	void prepare(const Act8Row& x, void* to) const {
		// Bytes of weights that meet codes lying together.
		constexpr uint32_t RUN = BITS == 4 && 4 * LANES > 32 ? 32 : 4 * LANES;
		char* y = static_cast<char*>(to);
		const uint32_t bytes = w_.words() * 4;
		for (uint32_t b = 0; b < w_.blocks(); b++, y += BLOCK_BYTES) {
			for (uint32_t i = 0; i < 4 * LANES; i += RUN) {
				const uint32_t at = b * 4 * LANES + i;
				const uint32_t n = at >= bytes ? 0 : bytes - at < RUN ? bytes - at : RUN;
				if (n < RUN) memset(y + i, 0, RUN), memset(y + CODE_BYTES - 4 * LANES + i, 0, RUN);
				if (BITS == 4) {
					const int8_t* c = x.codes + at / 32 * 64 + at % 32;
					if (n == RUN) memcpy(y + i, c, RUN), memcpy(y + 4 * LANES + i, c + 32, RUN);
					else memcpy(y + i, c, n), memcpy(y + 4 * LANES + i, c + 32, n);
				} else if (n == RUN) {
					memcpy(y + i, x.codes + at, RUN);
				} else {
					memcpy(y + i, x.codes + at, n);
				}
			}
			const uint32_t word = b * LANES, g = word >> SCALE_SHIFT, n = w_.in_dim / 32 - g;
			const vf scales = load_n(x.scales + g, int(n < LANES ? n : LANES));
			store_as(y + CODE_BYTES, repeat_lanes(scales, word - (g << SCALE_SHIFT), SCALE_SHIFT));
		}
		float* sums = reinterpret_cast<float*>(y);
		uint32_t n = w_.in_dim / 32;
		if (w_.group == 16) {
			sums_of_16(x, sums);
			n = w_.in_dim / 16;
		} else {
			memcpy(sums, x.sums, n * sizeof(float));
		}
		store(sums + n, zero());
		for (uint32_t width = 32; width < w_.group; width *= 2) n = fold_pairs(sums, n);
	}

	template <uint32_t O, uint32_t R>
	void dot(const WeightRow* rows, const uint8_t* ahead, const char* x, size_t stride, float* out) const {
		const size_t sums_at = size_t(w_.blocks()) * BLOCK_BYTES;
		vf sums[O * R] = {};
		w_.template walk<O>(
		    rows, ahead,
		    [&](uint32_t g, uint32_t o, vf bias) {
			    LW_UNROLL for (uint32_t r = 0; r < R; r++)
			        sums[o * R + r] = fma(bias, load_as<vf>(x + r * stride + sums_at + 4 * size_t(g)), sums[o * R + r]);
		    },
		    [&](uint32_t b, const vu* v, const vf* scales) {
			    LW_UNROLL for (uint32_t r = 0; r < R; r++) {
				    const char* block = x + r * stride + size_t(b) * BLOCK_BYTES;
				    const vf xs = load_as<vf>(block + CODE_BYTES);
				    LW_UNROLL for (uint32_t o = 0; o < O; o++) {
					    vf& s = sums[o * R + r];
					    s = fma(__builtin_convertvector(multiply(v[o], block), vf), scales[o] * xs, s);
				    }
			    }
		    });
		LW_UNROLL for (uint32_t i = 0; i < O * R; i += 4) store_as(out + i, sum4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
	}
};

}  // namespace LW_CPU_NAMESPACE
