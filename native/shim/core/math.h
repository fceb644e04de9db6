// Floating point functions. `precise` is what the default names give as well; `fast` may be less exact on CUDA.
#pragma once
#include "native/shim/core/vectors.h"

namespace metal {

// A function of one float, also element by element.
#define MSL_UNARY(name, expression) \
	MSL_FN float name(float x) { return expression; } \
	template <int N> \
	MSL_FN vec<float, N> name(vec<float, N> v) { \
		for (int i = 0; i < N; i++) v[i] = name(v[i]); \
		return v; \
	}

#define MSL_BINARY(name, expression) \
	MSL_FN float name(float x, float y) { return expression; } \
	template <int N> \
	MSL_FN vec<float, N> name(vec<float, N> a, vec<float, N> b) { \
		for (int i = 0; i < N; i++) a[i] = name(a[i], b[i]); \
		return a; \
	}

#ifdef __CUDA_ARCH__
#define MSL_RSQRT(x) ::rsqrtf(x)
#else
#define MSL_RSQRT(x) (1.0f / ::sqrtf(x))
#endif

#define MSL_TRANSCENDENTAL \
	MSL_UNARY(exp, ::expf(x)) \
	MSL_UNARY(exp2, ::exp2f(x)) \
	MSL_UNARY(log, ::logf(x)) \
	MSL_UNARY(log2, ::log2f(x)) \
	MSL_UNARY(log10, ::log10f(x)) \
	MSL_UNARY(sqrt, ::sqrtf(x)) \
	MSL_UNARY(rsqrt, MSL_RSQRT(x)) \
	MSL_UNARY(sin, ::sinf(x)) \
	MSL_UNARY(cos, ::cosf(x)) \
	MSL_UNARY(tan, ::tanf(x)) \
	MSL_UNARY(tanh, ::tanhf(x)) \
	MSL_BINARY(pow, ::powf(x, y)) \
	MSL_BINARY(powr, ::powf(x, y)) \
	MSL_BINARY(divide, x / y)

namespace precise {
MSL_TRANSCENDENTAL
}

MSL_TRANSCENDENTAL
MSL_UNARY(sinh, ::sinhf(x))
MSL_UNARY(cosh, ::coshf(x))
MSL_UNARY(asin, ::asinf(x))
MSL_UNARY(acos, ::acosf(x))
MSL_UNARY(atan, ::atanf(x))
MSL_UNARY(fabs, ::fabsf(x))
MSL_UNARY(floor, ::floorf(x))
MSL_UNARY(ceil, ::ceilf(x))
MSL_UNARY(trunc, ::truncf(x))
MSL_UNARY(round, ::roundf(x))
MSL_UNARY(rint, ::rintf(x))
MSL_UNARY(fract, x - ::floorf(x))
MSL_UNARY(saturate, ::fminf(::fmaxf(x, 0.0f), 1.0f))
MSL_BINARY(atan2, ::atan2f(x, y))
MSL_BINARY(fmod, ::fmodf(x, y))
MSL_BINARY(fmax, ::fmaxf(x, y))
MSL_BINARY(fmin, ::fminf(x, y))
MSL_BINARY(copysign, ::copysignf(x, y))
MSL_BINARY(step, y < x ? 0.0f : 1.0f)

namespace fast {
#ifdef __CUDA_ARCH__
MSL_UNARY(exp, __expf(x))
MSL_UNARY(exp2, ::exp2f(x))
MSL_UNARY(log, __logf(x))
MSL_UNARY(log2, __log2f(x))
MSL_UNARY(sqrt, ::sqrtf(x))
MSL_UNARY(rsqrt, MSL_RSQRT(x))
MSL_UNARY(sin, __sinf(x))
MSL_UNARY(cos, __cosf(x))
MSL_UNARY(tanh, ::tanhf(x))
MSL_BINARY(pow, __powf(x, y))
MSL_BINARY(divide, __fdividef(x, y))
#else
MSL_TRANSCENDENTAL
#endif
}  // namespace fast
#undef MSL_TRANSCENDENTAL
#undef MSL_BINARY
#undef MSL_UNARY

MSL_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
template <int N>
MSL_FN vec<float, N> fma(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
	for (int i = 0; i < N; i++) a[i] = ::fmaf(a[i], b[i], c[i]);
	return a;
}
MSL_FN float ldexp(float x, int exponent) { return ::ldexpf(x, exponent); }
MSL_FN float mix(float a, float b, float t) { return a + (b - a) * t; }
template <int N>
MSL_FN vec<float, N> mix(vec<float, N> a, vec<float, N> b, vec<float, N> t) {
	return a + (b - a) * t;
}
MSL_FN float sincos(float x, float& cosine) {
	cosine = ::cosf(x);
	return ::sinf(x);
}

// By their bits: no compiler flag may assume them away.
MSL_FN bool isnan(float x) { return (bitcast<uint32_t>(x) & 0x7fffffff) > 0x7f800000; }
MSL_FN bool isinf(float x) { return (bitcast<uint32_t>(x) & 0x7fffffff) == 0x7f800000; }
MSL_FN bool isfinite(float x) { return (bitcast<uint32_t>(x) & 0x7f800000) != 0x7f800000; }
MSL_FN bool signbit(float x) { return bitcast<uint32_t>(x) >> 31; }
#define MSL_PREDICATE(name) \
	template <int N> \
	MSL_FN vec<bool, N> name(vec<float, N> v) { \
		vec<bool, N> r; \
		for (int i = 0; i < N; i++) r[i] = name(v[i]); \
		return r; \
	}
MSL_PREDICATE(isnan)
MSL_PREDICATE(isinf)
MSL_PREDICATE(isfinite)
#undef MSL_PREDICATE

// sign(0) and sign(-0) are themselves, sign(NaN) is 0.
MSL_FN float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f; }
template <int N>
MSL_FN vec<float, N> sign(vec<float, N> v) {
	for (int i = 0; i < N; i++) v[i] = sign(v[i]);
	return v;
}

}  // namespace metal
