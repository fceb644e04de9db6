// Reads any weight format into tiles: LANES outputs side by side, one line a step of k, as the micro-kernels of
// gemm.h and gemm_act8.h take them. Owns the layout of stored weights seen from a matrix product; no activations.
#pragma once
#include <utility>

#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

// Outputs of one task, and the largest number of groups in one block of k.
constexpr uint32_t TILE_OUTS = 64;
constexpr uint32_t TILE_GROUPS = 64;

// Consecutive rows of a weight matrix [.., in_dim], stored without any alignment.
struct WeightRows {
	const void *values, *scales, *biases;
	size_t first;
	uint32_t count, in_dim, group;

	// Lanes behind the last row repeat it: what they hold is never stored.
	size_t row(uint32_t i) const { return first + (i < count ? i : count - 1); }
};

// ---- transposition of LANES x LANES words ----
typedef std::make_integer_sequence<int, LANES> LaneNumbers;
template <int... I> static inline vu zip_low(vu a, vu b, std::integer_sequence<int, I...>) {
	return __builtin_shufflevector(a, b, (I / 2 + I % 2 * LANES)...);
}
template <int... I> static inline vu zip_high(vu a, vu b, std::integer_sequence<int, I...>) {
	return __builtin_shufflevector(a, b, (LANES / 2 + I / 2 + I % 2 * LANES)...);
}
static inline void transpose(vu* m) {
	for (int round = 1; round < LANES; round *= 2) {
		vu t[LANES];
		for (int i = 0; i < LANES / 2; i++) {
			t[2 * i] = zip_low(m[i], m[i + LANES / 2], LaneNumbers());
			t[2 * i + 1] = zip_high(m[i], m[i + LANES / 2], LaneNumbers());
		}
		for (int i = 0; i < LANES; i++) m[i] = t[i];
	}
}

// ---- dense ----
// out[k * stride + lane] = weight of row panel * LANES + lane at k0 + k, for k < n.
template <class T>
static void unpack_dense(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, float* out, uint32_t stride) {
	typedef typename T::storage E;
	const char* p[LANES];
	for (uint32_t l = 0; l < LANES; l++)
		p[l] = static_cast<const char*>(w.values) + (w.row(panel * LANES + l) * w.in_dim + k0) * sizeof(E);
	for (uint32_t k = 0; k < n; k += LANES) {
		const uint32_t some = n - k < LANES ? n - k : LANES;
		vu m[LANES];
		for (int l = 0; l < LANES; l++) {
			E e[LANES] = {};
			if (some == LANES) memcpy(e, p[l] + k * sizeof(E), sizeof e);
			else memcpy(e, p[l] + k * sizeof(E), some * sizeof(E));
			m[l] = (vu)T::get_v(e);
		}
		transpose(m);
		for (uint32_t j = 0; j < some; j++) store(out + size_t(k + j) * stride, (vf)m[j]);
	}
}

// ---- affine ----
// out[g * stride + lane] = scale or bias of group g0 + g, for g < n <= TILE_GROUPS.
template <class S>
static inline void gather_groups(const WeightRows& w, const void* table, uint32_t panel, uint32_t g0, uint32_t n,
                                 float* out, uint32_t stride) {
	uint16_t t[TILE_GROUPS * LANES];
	const size_t groups = w.in_dim / w.group;
	for (uint32_t l = 0; l < LANES; l++) {
		const char* p = static_cast<const char*>(table) + (w.row(panel * LANES + l) * groups + g0) * 2;
		for (uint32_t g = 0; g < n; g++) memcpy(t + g * LANES + l, p + 2 * g, 2);
	}
	for (uint32_t g = 0; g < n; g++) store(out + size_t(g) * stride, S::get_v(t + g * LANES));
}

// Calls word(j, v) for each of the words that hold k0 .. k0+n-1: v has the word of all LANES rows.
template <int BITS, class F>
static inline void each_word(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, F word) {
	const char* p[LANES];
	for (uint32_t l = 0; l < LANES; l++)
		p[l] = static_cast<const char*>(w.values) + w.row(panel * LANES + l) * (size_t(w.in_dim) * BITS / 8) + size_t(k0) * BITS / 8;
	const uint32_t words = n * BITS / 32;
	for (uint32_t j = 0; j < words; j += LANES) {
		const uint32_t some = words - j < LANES ? words - j : LANES;
		vu m[LANES];
		for (int l = 0; l < LANES; l++) {
			if (some == LANES) m[l] = load_as<vu>(p[l] + 4 * j);
			else m[l] = vu{}, memcpy(&m[l], p[l] + 4 * j, 4 * some);
		}
		transpose(m);
		for (uint32_t i = 0; i < some; i++) word(j + i, m[i]);
	}
}

template <int BITS, class S>
static void unpack_affine(const WeightRows& w, uint32_t panel, uint32_t k0, uint32_t n, float* out, uint32_t stride) {
	constexpr int CODES = 32 / BITS;
	float scale[TILE_GROUPS * LANES], bias[TILE_GROUPS * LANES];
	gather_groups<S>(w, w.scales, panel, k0 / w.group, n / w.group, scale, LANES);
	gather_groups<S>(w, w.biases, panel, k0 / w.group, n / w.group, bias, LANES);
	const int shift = __builtin_ctz(w.group / CODES);
	each_word<BITS>(w, panel, k0, n, [&](uint32_t j, vu v) {
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
	const uint32_t groups = n / w.group;
	gather_groups<S>(w, w.scales, panel, k0 / w.group, groups, scale, stride);
	gather_groups<S>(w, w.biases, panel, k0 / w.group, groups, bias, stride);
	if (BITS == 8 && CODES_LESS_128) {
		for (uint32_t g = 0; g < groups; g++)
			store(bias + g * stride, fma(splat(128.f), load(scale + g * stride), load(bias + g * stride)));
	}
	each_word<BITS>(w, panel, k0, n, [&](uint32_t j, vu v) {
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
