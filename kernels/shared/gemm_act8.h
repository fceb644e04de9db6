// c[i,o] = sum_k x[row i, k] * w[o,k] for one tile of outputs and any list of rows, x quantised to int8 per 32 (quant_act8)
// and w affine. Per group: scale_w * scale_x * (sum of codes, exact in int32) + bias_w * (sum of x).
// Owns blocking and micro-kernel; which rows and outputs make a task is in gemm_tasks.h.
// 4-bit weights take the codes in split order: in each 64, the 32 even elements come before the odd ones. The four
// bytes at 4j of either half then face the even or the odd nibbles of word j.
#pragma once
#include "kernels/shared/weight_tile.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

typedef int16_t vs __attribute__((vector_size(4 * LANES)));
typedef uint16_t vsu __attribute__((vector_size(4 * LANES)));

constexpr uint32_t ACT8_DEPTH = 512;
constexpr uint32_t ACT8_RUN = 512;
constexpr uint32_t ACT8_GROUP = 32;  // elements under one activation scale
constexpr int ACT8_VECS = 2;
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int ACT8_ROWS = 6;
#else
constexpr int ACT8_ROWS = 3;
#endif
constexpr uint32_t ACT8_QUADS = ACT8_DEPTH / 4 + 16;  // row stride, a line more than a power of two

// Sixteen-bit lanes: even bytes and odd bytes of v, sign extended.
static inline vs even_bytes(vi v) { return (vs)((vsu)v << 8) >> 8; }
static inline vs odd_bytes(vi v) { return (vs)v >> 8; }
// s[i] + a[2i] * b[2i] + a[2i+1] * b[2i+1], exact.
static inline vi dot_pairs(vi s, vs a, vs b) {
#if defined(__AVX512BW__)
	return s + (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
	return s + (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
	return s + (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
	const int16x8_t p = (int16x8_t)a, q = (int16x8_t)b;
	return s + (vi)vpaddq_s32(vmull_s16(vget_low_s16(p), vget_low_s16(q)), vmull_high_s16(p, q));
#else
	for (int i = 0; i < LANES; i++) s[i] += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
	return s;
#endif
}

// How four codes a lane are multiplied: sums of w * x over the quads of one group, as far as int32.
// PLANES: words an activation quad takes in the panel.
struct DotPairs {
	static constexpr int PLANES = 2;
	typedef vi Sum;
	struct W { vs even, odd; };
	static inline W weights(const uint32_t* p) {
		const vu v = load_as<vu>(p);
		return {(vs)(v & 0x00ff00ffu), (vs)(v >> 8 & 0x00ff00ffu)};
	}
	static inline Sum add(Sum s, W w, vi even, vi odd) { return dot_pairs(dot_pairs(s, w.even, (vs)even), w.odd, (vs)odd); }
	static inline vi finish(Sum s) { return s; }
};
#if defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD)
struct DotQuads {
	static constexpr int PLANES = 1;
	typedef vi Sum;
	typedef vi W;
	static inline W weights(const uint32_t* p) { return load_as<vi>(p); }
	static inline Sum add(Sum s, W w, vi x, vi) {
#if defined(__AVX512VNNI__)
		return (vi)_mm512_dpbusd_epi32((__m512i)s, (__m512i)w, (__m512i)x);
#else
		return (vi)vdotq_s32((int32x4_t)s, (int8x16_t)w, (int8x16_t)x);
#endif
	}
	static inline vi finish(Sum s) { return s; }
};
template <int BITS> struct DotOf { typedef DotQuads type; };
#elif defined(__AVX2__)
// Only for 4-bit codes: 16 products of at most 15 * 127 fit an int16, those of 8-bit codes would saturate.
struct DotNibbles {
	static constexpr int PLANES = 1;
	typedef vs Sum;
	typedef vi W;
	static inline W weights(const uint32_t* p) { return load_as<vi>(p); }
	static inline Sum add(Sum s, W w, vi x, vi) { return s + (vs)_mm256_maddubs_epi16((__m256i)w, (__m256i)x); }
	static inline vi finish(Sum s) { return dot_pairs(vi{}, s, vs{} + int16_t(1)); }
};
template <int BITS> struct DotOf { typedef DotPairs type; };
template <> struct DotOf<4> { typedef DotNibbles type; };
#else
template <int BITS> struct DotOf { typedef DotPairs type; };
#endif

struct alignas(64) Act8Scratch {
	uint32_t w[ACT8_DEPTH / 4 * TILE_OUTS];  // [outs / (VECS * LANES)][quad][VECS * LANES]
	float scale[TILE_GROUPS * TILE_OUTS], bias[TILE_GROUPS * TILE_OUTS];  // [..][group][VECS * LANES]
	int32_t x[2 * ACT8_ROWS * ACT8_QUADS];  // [plane][row][quad]
	float x_scale[ACT8_ROWS * ACT8_DEPTH / ACT8_GROUP];
	float x_sum[ACT8_ROWS * TILE_GROUPS];  // sum of x over each group of the weights
	float c[ACT8_RUN * TILE_OUTS];
};
static_assert(sizeof(Act8Scratch) <= LW_THREAD_SCRATCH_BYTES, "scratch");
static_assert(ACT8_DEPTH / 16 <= TILE_GROUPS, "groups of a block");

// c[r,o] += the product over n elements, for R rows and VECS * LANES outputs; QUADS: quads under one pair of scales.
template <class D, int R, int QUADS>
static void act8_block(const Act8Scratch& s, uint32_t o, uint32_t n, uint32_t group, float* c) {
	constexpr uint32_t NR = ACT8_VECS * LANES;
	const uint32_t* w = s.w + size_t(o) * (ACT8_DEPTH / 4);
	const float *scale = s.scale + size_t(o) * TILE_GROUPS, *bias = s.bias + size_t(o) * TILE_GROUPS;
	const int shift = __builtin_ctz(group / (4 * QUADS));
	vf total[R][ACT8_VECS];
	for (int r = 0; r < R; r++)
		for (int v = 0; v < ACT8_VECS; v++) total[r][v] = zero();
	for (uint32_t u = 0; u < n / (4 * QUADS); u++) {
		typename D::Sum sums[R][ACT8_VECS];
		for (int r = 0; r < R; r++)
			for (int v = 0; v < ACT8_VECS; v++) sums[r][v] = typename D::Sum{};
		for (int q = 0; q < QUADS; q++, w += NR) {
			typename D::W b[ACT8_VECS];
			for (int v = 0; v < ACT8_VECS; v++) b[v] = D::weights(w + v * LANES);
			for (int r = 0; r < R; r++) {
				const int32_t* p = s.x + r * ACT8_QUADS + u * QUADS + q;
				const vi x = vi{} + p[0], x1 = vi{} + p[(D::PLANES - 1) * int(ACT8_ROWS * ACT8_QUADS)];
				for (int v = 0; v < ACT8_VECS; v++) sums[r][v] = D::add(sums[r][v], b[v], x, x1);
			}
		}
		const float* by = scale + (u >> shift) * NR;
		for (int r = 0; r < R; r++) {
			const vf x_scale = splat(s.x_scale[r * (ACT8_DEPTH / ACT8_GROUP) + u * (4 * QUADS) / ACT8_GROUP]);
			for (int v = 0; v < ACT8_VECS; v++) {
				const vf sum = __builtin_convertvector(D::finish(sums[r][v]), vf);
				total[r][v] = fma(sum, x_scale * load(by + v * LANES), total[r][v]);
			}
		}
	}
	for (uint32_t g = 0; g < n / group; g++) {
		for (int r = 0; r < R; r++) {
			const vf x_sum = splat(s.x_sum[r * TILE_GROUPS + g]);
			for (int v = 0; v < ACT8_VECS; v++) total[r][v] = fma(x_sum, load(bias + g * NR + v * LANES), total[r][v]);
		}
	}
	for (int r = 0; r < R; r++) {
		for (int v = 0; v < ACT8_VECS; v++) {
			float* to = c + r * TILE_OUTS + v * LANES;
			store(to, load(to) + total[r][v]);
		}
	}
}

// Product of quantised activations: codes [.., in_dim], scales and sums [.., in_dim / 32].
template <int BITS> struct GemmAct8 {
	static constexpr uint32_t RUN = ACT8_RUN;
	typedef typename DotOf<BITS>::type Dot;
	UnpackCodes unpack;
	const int8_t* codes;
	const float *scales, *sums;
	Act8Scratch& s;

	// As GemmF32.
	const float* operator()(const WeightRows* part, uint32_t parts, const uint32_t* rows, uint32_t n) const {
		constexpr uint32_t NR = ACT8_VECS * LANES, PANELS = TILE_OUTS / LANES;
		const uint32_t outs = parts == 1 ? (part[0].count + NR - 1) / NR * NR : TILE_OUTS;
		const uint32_t in_dim = part[0].in_dim, group = part[0].group, pieces = (n + ACT8_ROWS - 1) / ACT8_ROWS;
		memset(s.c, 0, size_t(n) * TILE_OUTS * sizeof(float));
		for (uint32_t k0 = 0; k0 < in_dim; k0 += ACT8_DEPTH) {
			const uint32_t depth = in_dim - k0 < ACT8_DEPTH ? in_dim - k0 : ACT8_DEPTH;
			for (uint32_t p = 0; p < outs / LANES; p++) {
				const uint32_t o = p / ACT8_VECS * NR, lane = p % ACT8_VECS * LANES;
				unpack(part[p * parts / PANELS], p % (PANELS / parts), k0, depth, s.w + o * (ACT8_DEPTH / 4) + lane,
				       s.scale + o * TILE_GROUPS + lane, s.bias + o * TILE_GROUPS + lane, NR);
			}
			for (uint32_t i = 0, piece = 0; piece < pieces; piece++) {
				const uint32_t some = (n - i + pieces - piece - 1) / (pieces - piece);
				for (uint32_t r = 0; r < some; r++) pack(r, rows[i + r], in_dim, k0, depth, group);
				for (uint32_t o = 0; o < outs; o += NR) block(some, o, depth, group, s.c + i * TILE_OUTS + o);
				i += some;
			}
		}
		return s.c;
	}

	// Row r of the panel: quads in the order of the weight tile, scales, sums per group of the weights.
	void pack(uint32_t r, size_t row, uint32_t in_dim, uint32_t k0, uint32_t n, uint32_t group) const {
		const int8_t* from = codes + row * in_dim + k0;
		const size_t at = row * (in_dim / ACT8_GROUP) + k0 / ACT8_GROUP;
		int32_t* to = s.x + r * ACT8_QUADS;
		for (uint32_t k = 0; k < n; k += 64) {
			if (BITS == 4) interleave(from + k, to + k / 4);
			else memcpy(to + k / 4, from + k, 64);
		}
		float* x_scale = s.x_scale + r * (ACT8_DEPTH / ACT8_GROUP);
		for (uint32_t g = 0; g < n / ACT8_GROUP; g += 2) memcpy(x_scale + g, scales + at + g, 8);
		float* x_sum = s.x_sum + r * TILE_GROUPS;
		const float* sum = sums + at;
		if (group == 128) {
			for (uint32_t g = 0; g < n / 128; g++, sum += 4) x_sum[g] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
		} else if (group == 64) {
			for (uint32_t g = 0; g < n / 64; g++, sum += 2) x_sum[g] = sum[0] + sum[1];
		} else if (group == 32) {
			for (uint32_t g = 0; g < n / 32; g++) x_sum[g] = sum[g];
		} else {
			const auto* code = reinterpret_cast<const int8_t*>(to);
			for (uint32_t g = 0; g < n / 16; g++, code += 16) {
				int t = 0;
				for (int i = 0; i < 16; i++) t += code[i];
				x_sum[g] = float(t) * x_scale[g / 2];
			}
		}
		if (Dot::PLANES == 2) {
			for (uint32_t q = 0; q < n / 4; q += LANES) {
				const vi v = load_as<vi>(to + q);
				store_as(to + q, even_bytes(v));
				store_as(to + ACT8_ROWS * ACT8_QUADS + q, odd_bytes(v));
			}
		}
	}

	// Sixteen quads in split order: to[2j] = from[j], to[2j + 1] = from[8 + j].
	static inline void interleave(const int8_t* from, int32_t* to) {
#if defined(__AVX512F__)
		const vu v = load_as<vu>(from);
		store_as(to, __builtin_shufflevector(v, v, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
#else
		typedef uint32_t v4 __attribute__((vector_size(16)));
		for (int j = 0; j < 8; j += 4) {
			const v4 a = load_as<v4>(from + 4 * j), b = load_as<v4>(from + 32 + 4 * j);
			store_as(to + 2 * j, __builtin_shufflevector(a, b, 0, 4, 1, 5));
			store_as(to + 2 * j + 4, __builtin_shufflevector(a, b, 2, 6, 3, 7));
		}
#endif
	}

	template <int QUADS, int... R>
	void block(std::integer_sequence<int, R...>, uint32_t some, uint32_t o, uint32_t n, uint32_t group, float* c) const {
		static constexpr decltype(&act8_block<Dot, 1, QUADS>) blocks[] = {act8_block<Dot, R + 1, QUADS>...};
		blocks[some - 1](s, o, n, group, c);
	}
	void block(uint32_t some, uint32_t o, uint32_t n, uint32_t group, float* c) const {
		const std::make_integer_sequence<int, ACT8_ROWS> rows;
		if (group < ACT8_GROUP) block<4>(rows, some, o, n, group, c);
		else block<8>(rows, some, o, n, group, c);
	}
};

}  // namespace LW_CPU_NAMESPACE
