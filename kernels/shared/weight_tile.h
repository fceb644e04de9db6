// Reads any weight format into tiles: LANES outputs side by side, one line a step of k, as the micro-kernels of
// gemm.h and gemm_act8.h take them. Owns the layout of stored weights seen from a matrix product; no activations.
#pragma once
#include <utility>

#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

// Outputs of one task, and the largest number of groups in one block of k.
constexpr uint32_t TILE_OUTS = 64;
constexpr uint32_t TILE_GROUPS = 32;

// Consecutive rows of a weight matrix [.., in_dim], stored without any alignment.
struct WeightRows {
	const void *values, *scales, *biases;
	size_t first;
	uint32_t count, in_dim, group;

	// Lanes behind the last row repeat it: what they hold is never stored.
	size_t row(uint32_t i) const { return first + (i < count ? i : count - 1); }
};

// ---- four words of LANES rows at a time, transposed ----
typedef uint32_t v4 __attribute__((vector_size(16)));

// The first n <= 16 bytes from p, zeros behind them.
static inline v4 load_bytes(const char* p, uint32_t n) {
#if defined(__AVX512BW__)
	return (v4)_mm_maskz_loadu_epi8(__mmask16((1u << n) - 1), p);
#else
	char t[16] = {};
	if (n == 16) return load_as<v4>(p);
	if (n & 8) memcpy(t, p, 8);
	if (n & 4) memcpy(t + (n & 8), p + (n & 8), 4);
	if (n & 2) memcpy(t + (n & 12), p + (n & 12), 2);
	if (n & 1) t[n & 14] = p[n & 14];
	return load_as<v4>(t);
#endif
}

// n <= 16 bytes of each row: row l in the 128-bit lane l / 4 of vector l % 4.
static inline void load_rows(const char* const* p, size_t at, uint32_t n, vu* m) {
	for (int i = 0; i < 4; i++) {
#if defined(__AVX512F__)
		__m512i v = _mm512_castsi128_si512((__m128i)load_bytes(p[i] + at, n));
		v = _mm512_inserti32x4(v, (__m128i)load_bytes(p[i + 4] + at, n), 1);
		v = _mm512_inserti32x4(v, (__m128i)load_bytes(p[i + 8] + at, n), 2);
		m[i] = (vu)_mm512_inserti32x4(v, (__m128i)load_bytes(p[i + 12] + at, n), 3);
#elif defined(__AVX2__)
		const __m256i v = _mm256_castsi128_si256((__m128i)load_bytes(p[i] + at, n));
		m[i] = (vu)_mm256_inserti128_si256(v, (__m128i)load_bytes(p[i + 4] + at, n), 1);
#else
		m[i] = load_bytes(p[i] + at, n);
#endif
	}
}

typedef std::make_integer_sequence<int, LANES> LaneNumbers;
// Inside each 128 bits: units of UNIT words, by turns from a and b, of their low or high halves.
template <int UNIT, int HIGH, int... I> static inline vu zip(vu a, vu b, std::integer_sequence<int, I...>) {
	return __builtin_shufflevector(
	    a, b, (I / 4 * 4 + HIGH * 2 + I % 4 / (2 * UNIT) * UNIT + I % UNIT + I / UNIT % 2 * LANES)...);
}

// Calls word(j, v) for each word of `bytes` bytes at `at` of LANES rows: v has that word of every row. A last word
// that is cut short is filled up with zeros.
template <class F> static inline void each_word(const char* const* p, size_t at, uint32_t bytes, F word) {
	constexpr LaneNumbers lanes;
	for (uint32_t done = 0; done < bytes; done += 16) {
		const uint32_t n = bytes - done < 16 ? bytes - done : 16;
		vu m[4], t[4];
		if (n == 16) load_rows(p, at + done, 16, m);
		else load_rows(p, at + done, n, m);
		t[0] = zip<1, 0>(m[0], m[1], lanes), t[1] = zip<1, 1>(m[0], m[1], lanes);
		t[2] = zip<1, 0>(m[2], m[3], lanes), t[3] = zip<1, 1>(m[2], m[3], lanes);
		m[0] = zip<2, 0>(t[0], t[2], lanes), m[1] = zip<2, 1>(t[0], t[2], lanes);
		m[2] = zip<2, 0>(t[1], t[3], lanes), m[3] = zip<2, 1>(t[1], t[3], lanes);
		for (uint32_t i = 0; 4 * i < n; i++) word(done / 4 + i, m[i]);
	}
}

// Asks for the same bytes of the next block: LANES rows are more streams than hardware prefetchers follow.
static inline void prefetch_rows(const char* const* p, size_t at, uint32_t bytes) {
	for (uint32_t b = 0; b < bytes; b += 64)
		for (int l = 0; l < LANES; l++) __builtin_prefetch(p[l] + at + bytes + b);
}

// The two 16-bit floats of each word, widened.
static inline vf low_half(vu w, BF16) { return (vf)(w << 16); }
static inline vf high_half(vu w, BF16) { return (vf)(w & 0xffff0000u); }
static inline vf low_half(vu w, F16) {
	const vh h = __builtin_convertvector(w & 0xffffu, vh);
	return load_f16(&h);
}
static inline vf high_half(vu w, F16) { return low_half(w >> 16, F16()); }

// ---- dense ----
// out[k * stride + lane] = weight of row panel * LANES + lane at k0 + k, for k < n.
template <class T>
static void unpack_dense(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, float* out, uint32_t stride) {
	constexpr uint32_t SIZE = sizeof(typename T::storage);
	const char* p[LANES];
	for (uint32_t l = 0; l < LANES; l++)
		p[l] = static_cast<const char*>(w.values) + w.row(panel * LANES + l) * w.in_dim * SIZE;
	each_word(p, size_t(k0) * SIZE, n * SIZE, [&](uint32_t j, vu v) {
		if constexpr (SIZE == 4) {
			store(out + size_t(j) * stride, (vf)v);
		} else {
			store(out + size_t(2 * j) * stride, low_half(v, T()));
			if (2 * j + 1 < n) store(out + size_t(2 * j + 1) * stride, high_half(v, T()));
		}
	});
}

// ---- affine ----
// out[g * stride + lane] = scale or bias of group g0 + g, for g < n.
template <class S>
static inline void unpack_groups(const WeightRows& w, const void* table, uint32_t panel, uint32_t k0, uint32_t n,
                                 float* out, uint32_t stride) {
	WeightRows groups = w;
	groups.values = table, groups.in_dim = w.in_dim / w.group;
	unpack_dense<S>(groups, panel, k0 / w.group, n / w.group, out, stride);
}

template <int BITS, class F>
static inline void each_code_word(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, F word) {
	const char* p[LANES];
	for (uint32_t l = 0; l < LANES; l++)
		p[l] = static_cast<const char*>(w.values) + w.row(panel * LANES + l) * (size_t(w.in_dim) * BITS / 8);
	prefetch_rows(p, size_t(k0) * BITS / 8, n * BITS / 8);
	each_word(p, size_t(k0) * BITS / 8, n * BITS / 8, word);
}

template <int BITS, class S>
static void unpack_affine(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, float* out, uint32_t stride) {
	constexpr int CODES = 32 / BITS;
	float scale[TILE_GROUPS * LANES], bias[TILE_GROUPS * LANES];
	unpack_groups<S>(w, w.scales, panel, k0, n, scale, LANES);
	unpack_groups<S>(w, w.biases, panel, k0, n, bias, LANES);
	const int shift = __builtin_ctz(w.group / CODES);
	each_code_word<BITS>(w, panel, k0, n, [&](uint32_t j, vu v) {
		const vf s = load(scale + (j >> shift) * LANES), b = load(bias + (j >> shift) * LANES);
		float* to = out + size_t(j) * CODES * stride;
		for (int i = 0; i < CODES; i++) {
			const vi code = (vi)(v >> (BITS * i) & ((1u << BITS) - 1));
			store(to + i * stride, fma(__builtin_convertvector(code, vf), s, b));
		}
	});
}

#if defined(__ARM_FEATURE_DOTPROD)
// vdotq multiplies signed by signed: 8-bit codes are stored less 128, and the bias makes up for it.
constexpr bool CODES_LESS_128 = true;
#else
constexpr bool CODES_LESS_128 = false;
#endif

// codes[q * stride + lane] = four codes as bytes. 8-bit: those of k = 4q..4q+3. 4-bit: of word q/2 the even (q even)
// or odd (q odd) ones. scale, bias: [g * stride + lane].
template <int BITS, class S>
static void unpack_codes(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, uint32_t* codes, float* scale,
                         float* bias, uint32_t stride) {
	unpack_groups<S>(w, w.scales, panel, k0, n, scale, stride);
	unpack_groups<S>(w, w.biases, panel, k0, n, bias, stride);
	if (BITS == 8 && CODES_LESS_128) {
		for (uint32_t g = 0; g < n / w.group; g++)
			store(bias + g * stride, fma(splat(128.f), load(scale + g * stride), load(bias + g * stride)));
	}
	each_code_word<BITS>(w, panel, k0, n, [&](uint32_t j, vu v) {
		if (BITS == 4) {
			store_as(codes + 2 * j * stride, v & 0x0f0f0f0fu);
			store_as(codes + (2 * j + 1) * stride, v >> 4 & 0x0f0f0f0fu);
		} else {
			store_as(codes + j * stride, CODES_LESS_128 ? v ^ 0x80808080u : v);
		}
	});
}

// ---- the formats by the names that kernels carry ----
typedef void (*UnpackF32)(const WeightRows&, uint32_t panel, uint32_t k0, uint32_t n, float* out, uint32_t stride);
typedef void (*UnpackCodes)(const WeightRows&, uint32_t panel, uint32_t k0, uint32_t n, uint32_t* codes, float* scale,
                            float* bias, uint32_t stride);

template <class T> struct DenseTile {
	static constexpr uint32_t group = 1;
	static constexpr UnpackF32 unpack = unpack_dense<T>;
};
template <int BITS, uint32_t GROUP, class S> struct AffineTile {
	static constexpr int bits = BITS;
	static constexpr uint32_t group = GROUP;
	static constexpr UnpackF32 unpack = unpack_affine<BITS, S>;
	static constexpr UnpackCodes codes = unpack_codes<BITS, S>;
};
namespace tile {
typedef DenseTile<F32> f32;
typedef DenseTile<F16> f16;
typedef DenseTile<BF16> bf16;
#define LW_TILES(bits, group) \
	typedef AffineTile<bits, group, F16> q##bits##g##group##_f16; \
	typedef AffineTile<bits, group, BF16> q##bits##g##group##_bf16;
LW_TILES(4, 16) LW_TILES(4, 32) LW_TILES(4, 64) LW_TILES(4, 128)
LW_TILES(8, 16) LW_TILES(8, 32) LW_TILES(8, 64) LW_TILES(8, 128)
#undef LW_TILES
}  // namespace tile

}  // namespace LW_CPU_NAMESPACE
