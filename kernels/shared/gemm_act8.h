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

// How four codes a lane are multiplied: W are the codes of LANES outputs, X those of one row in every lane, Sum adds up
// the products of one group and becomes int32 by finish.
struct DotPairs {
	typedef vi Sum;
	struct W { vs even, odd; };
	typedef W X;
	static inline W weights(const uint32_t* p) {
		const vu v = load_as<vu>(p);
		return {(vs)(v & 0x00ff00ffu), (vs)(v >> 8 & 0x00ff00ffu)};
	}
	static inline X row(int32_t quad) {
		const vi v = vi{} + quad;
		return {(vs)((vsu)v << 8) >> 8, (vs)v >> 8};
	}
	static inline Sum add(Sum s, W w, X x) { return dot_pairs(dot_pairs(s, w.even, x.even), w.odd, x.odd); }
	static inline vi finish(Sum s) { return s; }
};
template <int BITS> struct DotOf { typedef DotPairs type; };
#if defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD)
struct DotQuads {
	typedef vi Sum, W, X;
	static inline W weights(const uint32_t* p) { return load_as<vi>(p); }
	static inline X row(int32_t quad) { return vi{} + quad; }
	static inline Sum add(Sum s, W w, X x) {
#if defined(__AVX512VNNI__)
		return (vi)_mm512_dpbusd_epi32((__m512i)s, (__m512i)w, (__m512i)x);
#else
		return (vi)vdotq_s32((int32x4_t)s, (int8x16_t)w, (int8x16_t)x);
#endif
	}
	static inline vi finish(Sum s) { return s; }
};
template <> struct DotOf<4> { typedef DotQuads type; };
template <> struct DotOf<8> { typedef DotQuads type; };
#elif defined(__AVX2__)
// Only for 4-bit codes: 16 products of at most 15 * 127 fit an int16, those of 8-bit codes would saturate.
struct DotNibbles {
	typedef vs Sum;
	typedef vi W, X;
	static inline W weights(const uint32_t* p) { return load_as<vi>(p); }
	static inline X row(int32_t quad) { return vi{} + quad; }
	static inline Sum add(Sum s, W w, X x) { return s + (vs)_mm256_maddubs_epi16((__m256i)w, (__m256i)x); }
	static inline vi finish(Sum s) { return dot_pairs(vi{}, s, vs{} + int16_t(1)); }
};
template <> struct DotOf<4> { typedef DotNibbles type; };
#endif

struct alignas(64) Act8Scratch {
	uint32_t w[ACT8_DEPTH / 4 * TILE_OUTS];  // [outs / (VECS * LANES)][quad][VECS * LANES]
	float scale[TILE_GROUPS * TILE_OUTS], bias[TILE_GROUPS * TILE_OUTS];  // [..][group][VECS * LANES]
	float x_sum[ACT8_ROWS * TILE_GROUPS];  // sum of x over each group of the weights
	float c[ACT8_RUN * TILE_OUTS];
};
static_assert(sizeof(Act8Scratch) <= LW_THREAD_SCRATCH_BYTES, "scratch");
static_assert(ACT8_DEPTH / 16 <= TILE_GROUPS, "groups of a block");

// c[r,o] += the product over n >= 1 groups of 4 * QUADS elements, for R rows and VECS * LANES outputs.
template <int BITS, int R, int QUADS>
static void act8_block(const int8_t* const* x, const float* const* x_scale, const Act8Scratch& s, uint32_t o, uint32_t n,
                       uint32_t group, float* c) {
	typedef typename DotOf<BITS>::type D;
	constexpr uint32_t NR = ACT8_VECS * LANES;
	constexpr int SECOND = BITS == 4 ? 32 : 4, STEP = BITS == 4 ? 4 : 8;  // bytes to the next quad, to the next two
	const uint32_t* w = s.w + size_t(o) * (ACT8_DEPTH / 4);
	const float *scale = s.scale + size_t(o) * TILE_GROUPS, *bias = s.bias + size_t(o) * TILE_GROUPS;
	const int shift = __builtin_ctz(group / (4 * QUADS));
	const int8_t* row[R];
	for (int r = 0; r < R; r++) row[r] = x[r];
	vf total[R][ACT8_VECS];
	for (int r = 0; r < R; r++)
		for (int v = 0; v < ACT8_VECS; v++) total[r][v] = zero();
	uint32_t u = 0;
	do {
		typename D::Sum sums[R][ACT8_VECS];
		for (int r = 0; r < R; r++)
			for (int v = 0; v < ACT8_VECS; v++) sums[r][v] = typename D::Sum{};
		const uint32_t word = u * (QUADS / 2);
		size_t at = BITS == 4 ? word / 8 * 64 + word % 8 * 4 : word * 8;
		for (int q = 0; q < QUADS; q += 2, w += 2 * NR, at += STEP) {
			for (int second = 0; second < 2; second++) {
				typename D::W b[ACT8_VECS];
				for (int v = 0; v < ACT8_VECS; v++) b[v] = D::weights(w + second * NR + v * LANES);
				for (int r = 0; r < R; r++) {
					const auto quad = D::row(load_as<int32_t>(row[r] + at + second * SECOND));
					for (int v = 0; v < ACT8_VECS; v++) sums[r][v] = D::add(sums[r][v], b[v], quad);
				}
			}
		}
		const float* by = scale + (u >> shift) * NR;
		for (int r = 0; r < R; r++) {
			const vf by_x = splat(x_scale[r][u * (4 * QUADS) / ACT8_GROUP]);
			for (int v = 0; v < ACT8_VECS; v++) {
				const vf sum = __builtin_convertvector(D::finish(sums[r][v]), vf);
				total[r][v] = fma(sum, by_x * load(by + v * LANES), total[r][v]);
			}
		}
	} while (++u < n);
	uint32_t g = 0;
	do {
		for (int r = 0; r < R; r++) {
			const vf x_sum = splat(s.x_sum[r * TILE_GROUPS + g]);
			for (int v = 0; v < ACT8_VECS; v++) total[r][v] = fma(x_sum, load(bias + g * NR + v * LANES), total[r][v]);
		}
	} while (++g < n >> shift);
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
				const int8_t* row[ACT8_ROWS];
				const float* row_scale[ACT8_ROWS];
				for (uint32_t r = 0; r < some; r++) {
					const size_t at = size_t(rows[i + r]) * in_dim + k0;
					row[r] = codes + at, row_scale[r] = scales + at / ACT8_GROUP;
					sum_groups(row[r], row_scale[r], sums + at / ACT8_GROUP, depth, group, s.x_sum + r * TILE_GROUPS);
				}
				// The next rows come nearer while these are multiplied.
				for (uint32_t r = i + some; r < n && r < i + 2 * some; r++) {
					const size_t at = size_t(rows[r]) * in_dim + k0;
					for (uint32_t k = 0; k < depth; k += 64) __builtin_prefetch(codes + at + k);
					__builtin_prefetch(scales + at / ACT8_GROUP);
					__builtin_prefetch(sums + at / ACT8_GROUP);
				}
				for (uint32_t o = 0; o < outs; o += NR)
					block(some, row, row_scale, o, depth, group, s.c + i * TILE_OUTS + o);
				i += some;
			}
		}
		return s.c;
	}

	// out[g] = sum of x over group g of the weights, for n elements of one row.
	static void sum_groups(const int8_t* code, const float* scale, const float* sum, uint32_t n, uint32_t group, float* out) {
		if (group == 128) {
			for (uint32_t g = 0; g < n / 128; g++, sum += 4) out[g] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
		} else if (group == 64) {
			for (uint32_t g = 0; g < n / 64; g++, sum += 2) out[g] = sum[0] + sum[1];
		} else if (group == 32) {
			for (uint32_t g = 0; g < n / 32; g++) out[g] = sum[g];
		} else {
			for (uint32_t g = 0; g < n / 16; g++) {
				const int8_t* p = code + (BITS == 4 ? g / 4 * 64 + g % 4 * 8 : g * 16);
				out[g] = float(sum_bytes(p, p + (BITS == 4 ? 32 : 8))) * scale[g / 2];
			}
		}
	}

	// Sum of eight codes at p and eight at q: as unsigned bytes that are 128 too large, in 16-bit fields.
	static inline int sum_bytes(const int8_t* p, const int8_t* q) {
		constexpr uint64_t FIELDS = 0x00ff00ff00ff00ffull, SIGNS = 0x8080808080808080ull;
		const uint64_t a = load_as<uint64_t>(p) ^ SIGNS, b = load_as<uint64_t>(q) ^ SIGNS;
		const uint64_t t = (a & FIELDS) + (a >> 8 & FIELDS) + (b & FIELDS) + (b >> 8 & FIELDS);
		return int(t * 0x0001000100010001ull >> 48) - 16 * 128;
	}

	template <int QUADS, int... R>
	void block(std::integer_sequence<int, R...>, uint32_t some, const int8_t* const* row, const float* const* row_scale,
	           uint32_t o, uint32_t depth, uint32_t group, float* c) const {
		static constexpr decltype(&act8_block<BITS, 1, QUADS>) blocks[] = {act8_block<BITS, R + 1, QUADS>...};
		blocks[some - 1](row, row_scale, s, o, depth / (4 * QUADS), group, c);
	}
	void block(uint32_t some, const int8_t* const* row, const float* const* row_scale, uint32_t o, uint32_t depth,
	           uint32_t group, float* c) const {
		constexpr std::make_integer_sequence<int, ACT8_ROWS> all;
		if (group < ACT8_GROUP) block<4>(all, some, row, row_scale, o, depth, group, c);
		else block<8>(all, some, row, row_scale, o, depth, group, c);
	}
};

}  // namespace LW_CPU_NAMESPACE
