// Vectors of f32 for the CPU kernels, as wide as the instruction set this file is compiled for:
// 16 lanes (AVX-512), 8 (AVX2) or 4 (NEON, SSE2). Every kernel source is compiled once per set into a
// namespace of its own (LW_CPU_NAMESPACE) and picked at run time.
// Products are fused or not by these functions alone (-ffp-contract=off), so that a row gets the same
// bits in every instantiation of a kernel. Owns no algorithm.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace LW_CPU_NAMESPACE {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef uint16_t vh __attribute__((vector_size(2 * LANES)));

// Unaligned loads and stores of anything: checkpoints promise no alignment.
template <class V> static inline V load_as(const void* p) {
	V v;
	memcpy(&v, p, sizeof v);
	return v;
}
template <class V> static inline void store_as(void* p, V v) { memcpy(p, &v, sizeof v); }

// x - 0 and not x + 0, which would turn -0 into +0.
static inline vf splat(float x) { return x - vf{}; }
static inline vf zero() { return vf{}; }
static inline vf load(const float* p) { return load_as<vf>(p); }
static inline void store(float* p, vf v) { store_as(p, v); }
// The first n lanes from p (0 <= n <= LANES), zeros behind them.
static inline vf load_n(const float* p, int n) {
#if defined(__AVX512F__)
	return (vf)_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
#else
	// A whole vector is by far the common case, and a copy of unknown length is a call.
	if (n == LANES) return load(p);
	vf v = {};
	memcpy(&v, p, size_t(n) * 4);
	return v;
#endif
}
static inline void store_n(float* p, vf v, int n) {
#if defined(__AVX512F__)
	_mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), (__m512)v);
#else
	memcpy(p, &v, size_t(n) * 4);
#endif
}

// a * b + c with one rounding where the hardware has it.
static inline vf fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
	return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
	return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
	return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
	return a * b + c;
#endif
}
static inline vf max(vf a, vf b) { return a > b ? a : b; }
static inline vf min(vf a, vf b) { return a < b ? a : b; }

typedef float vf4 __attribute__((vector_size(16)));
// The lanes added down to four: the upper half onto the lower one until four are left.
static inline vf4 fold4(vf v) {
#if defined(__AVX512F__)
	typedef float vf8 __attribute__((vector_size(32)));
	vf8 h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
	return __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#elif defined(__AVX2__)
	return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
	return v;
#endif
}
// Sum and maximum over the lanes, always by the same halving tree. The maximum passes over a NaN or
// returns it, depending on its lane.
static inline float sum(vf v) {
	vf4 q = fold4(v);
	return (q[0] + q[2]) + (q[1] + q[3]);
}
// {sum(a), sum(b), sum(c), sum(d)}, to the bit.
static inline vf4 sum4(vf a, vf b, vf c, vf d) {
	vf4 p = fold4(a), q = fold4(b), r = fold4(c), s = fold4(d);
	vf4 x = __builtin_shufflevector(p, q, 0, 1, 4, 5) + __builtin_shufflevector(p, q, 2, 3, 6, 7);
	vf4 y = __builtin_shufflevector(r, s, 0, 1, 4, 5) + __builtin_shufflevector(r, s, 2, 3, 6, 7);
	return __builtin_shufflevector(x, y, 0, 2, 4, 6) + __builtin_shufflevector(x, y, 1, 3, 5, 7);
}
// A sum of many f32 vectors in f64: lanes apart until the end, then the lowest lane first.
struct sum_f64 {
	double lane __attribute__((vector_size(8 * LANES))) = {};
	inline void add(vf v) { lane += __builtin_convertvector(v, decltype(lane)); }
	inline double total() const {
		double s = 0;
		for (int i = 0; i < LANES; i++) s += lane[i];
		return s;
	}
};
// Whether a comparison (lanes all ones or all zeros) holds in some lane.
static inline bool any(vi mask) {
#if defined(__AVX512F__)
	return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
	return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__ARM_NEON)
	return vmaxvq_u32((uint32x4_t)mask) != 0;
#elif defined(__SSE2__)
	return _mm_movemask_ps((__m128)mask) != 0;
#else
	for (int i = 0; i < LANES; i++)
		if (mask[i]) return true;
	return false;
#endif
}
// Lanes 0, 2, 4, ... and 1, 3, 5, ... of the 2 * LANES values a, b.
static inline vf evens(vf a, vf b) {
#if defined(__AVX512F__)
	return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif defined(__AVX2__)
	return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
	return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}
static inline vf odds(vf a, vf b) {
#if defined(__AVX512F__)
	return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
	return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
	return __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}
static inline float hmax(vf v) {
	float t[LANES];
	store_as(t, v);
	for (int w = LANES / 2; w; w /= 2)
		for (int i = 0; i < w; i++) t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
	return t[0];
}

// ---- 16-bit floats ----
static inline float bf16_to_f32(uint16_t h) {
	uint32_t u = uint32_t(h) << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}
// Nearest, ties to even; NaN stays NaN.
static inline uint16_t f32_to_bf16(float f) {
	uint32_t u;
	memcpy(&u, &f, 4);
	if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
	return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline float f16_to_f32(uint16_t h) {
#if defined(__F16C__) || defined(__AVX512F__)
	return _cvtsh_ss(h);
#elif defined(__ARM_NEON)
	__fp16 x;
	memcpy(&x, &h, 2);
	return float(x);
#else
	uint32_t sign = uint32_t(h & 0x8000) << 16, rest = uint32_t(h & 0x7fff) << 13, u;
	float f;
	if ((h & 0x7c00) == 0x7c00) { u = sign | rest | 0x70000000u | 0x7f800000u; memcpy(&f, &u, 4); return f; }
	// Rebias by a multiplication, which also makes subnormals right.
	memcpy(&f, &rest, 4);
	f *= 0x1p112f;
	memcpy(&u, &f, 4);
	u |= sign;
	memcpy(&f, &u, 4);
	return f;
#endif
}
static inline uint16_t f32_to_f16(float f) {
#if defined(__F16C__) || defined(__AVX512F__)
	return uint16_t(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__ARM_NEON)
	__fp16 x = __fp16(f);
	uint16_t h;
	memcpy(&h, &x, 2);
	return h;
#else
	uint32_t u;
	memcpy(&u, &f, 4);
	uint16_t sign = uint16_t(u >> 16 & 0x8000);
	uint32_t a = u & 0x7fffffffu;
	if (a > 0x7f800000u) return sign | 0x7e00;
	if (a >= 0x47800000u) return sign | 0x7c00;
	if (a < 0x38800000u) {
		float x;
		memcpy(&x, &a, 4);
		return uint16_t(sign | uint16_t(std::nearbyintf(x * 0x1p24f)));
	}
	return uint16_t(sign | ((a - 0x38000000u + 0xfff + (a >> 13 & 1)) >> 13));
#endif
}
static inline vf load_bf16(const void* p) {
#if defined(__AVX512F__)
	vu u = (vu)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)load_as<vh>(p));
#elif defined(__AVX2__)
	vu u = (vu)_mm256_cvtepu16_epi32((__m128i)load_as<vh>(p));
#else
	vu u = __builtin_convertvector(load_as<vh>(p), vu);
#endif
	return (vf)(u << 16);
}
static inline vf load_f16(const void* p) {
#if defined(__AVX512F__)
	// maskz, because GCC 12 takes the plain form for a use of something uninitialised.
	return (vf)_mm512_maskz_cvtph_ps(0xffff, (__m256i)load_as<vh>(p));
#elif defined(__F16C__)
	return (vf)_mm256_cvtph_ps((__m128i)load_as<vh>(p));
#elif defined(__ARM_NEON)
	return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t*)p)));
#else
	// As f16_to_f32, lane by lane.
	vu h = __builtin_convertvector(load_as<vh>(p), vu);
	vf f = (vf)((h & 0x7fff) << 13) * 0x1p112f;
	vu infinite = (vu)((h & 0x7c00) == 0x7c00) & 0x7f800000u;
	return (vf)((vu)f | infinite | (h & 0x8000) << 16);
#endif
}

// Element types by which kernels are templated: how one value and one vector are read and written.
struct F32 {
	typedef float storage;
	static inline float get(const float* p) { return load_as<float>(p); }
	static inline vf get_v(const float* p) { return load(p); }
	static inline float put(float x) { return x; }
};
struct F16 {
	typedef uint16_t storage;
	static inline float get(const uint16_t* p) { return f16_to_f32(load_as<uint16_t>(p)); }
	static inline vf get_v(const uint16_t* p) { return load_f16(p); }
	static inline uint16_t put(float x) { return f32_to_f16(x); }
};
struct BF16 {
	typedef uint16_t storage;
	static inline float get(const uint16_t* p) { return bf16_to_f32(load_as<uint16_t>(p)); }
	static inline vf get_v(const uint16_t* p) { return load_bf16(p); }
	static inline uint16_t put(float x) { return f32_to_bf16(x); }
};

// ---- functions of the exponential ----
// e^x, relative error below 2e-7 where the result is a normal f32; 0 below -87.3, finite up to 88.7
// (argument reduction by ln 2 in two parts, then the degree-6 Cephes polynomial). NaN stays NaN.
static inline vf exp(vf x) {
	vf lo = splat(-87.33654f), hi = splat(88.72283f);
	vf c = x < lo ? lo : x;
	c = c > hi ? hi : c;
	vf n = c * 1.44269504f + 12582912.f;  // 1.5 * 2^23: the sum rounds to an integer
	vi k = (vi)n - 0x4b400000;
	n = n - 12582912.f;
	vf r = fma(n, splat(-0.693359375f), c);
	r = fma(n, splat(2.12194440e-4f), r);
	vf p = splat(1.9875691500e-4f);
	p = fma(p, r, splat(1.3981999507e-3f));
	p = fma(p, r, splat(8.3334519073e-3f));
	p = fma(p, r, splat(4.1665795894e-2f));
	p = fma(p, r, splat(1.6666665459e-1f));
	p = fma(p, r, splat(5.0000001201e-1f));
	vf y = fma(p, r * r, r + 1.f);
	// 2^k in two factors: k may be 128, which one exponent field cannot hold.
	vi half = k >> 1;
	vf a = (vf)((half + 127) << 23), b = (vf)((k - half + 127) << 23);
	y = y * a * b;
	y = x < lo ? zero() : y;
	return x != x ? x : y;
}
static inline vf sigmoid(vf x) { return 1.f / (exp(-x) + 1.f); }
static inline vf silu(vf x) { return x / (exp(-x) + 1.f); }

}  // namespace LW_CPU_NAMESPACE
