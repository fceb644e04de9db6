// Functions of floats and integers, by scalars and vectors.
#pragma once

namespace metal {

#define MSL_UNARY(name) \
	float name(float); \
	half name(half); \
	float2 name(float2); \
	float3 name(float3); \
	float4 name(float4);
#define MSL_BINARY(name) \
	float name(float, float); \
	half name(half, half); \
	float2 name(float2, float2); \
	float3 name(float3, float3); \
	float4 name(float4, float4);

#define MSL_TRANSCENDENTAL \
	MSL_UNARY(exp) \
	MSL_UNARY(exp2) \
	MSL_UNARY(log) \
	MSL_UNARY(log2) \
	MSL_UNARY(log10) \
	MSL_UNARY(sqrt) \
	MSL_UNARY(rsqrt) \
	MSL_UNARY(sin) \
	MSL_UNARY(cos) \
	MSL_UNARY(tan) \
	MSL_UNARY(tanh) \
	MSL_BINARY(pow) \
	MSL_BINARY(powr) \
	MSL_BINARY(divide)
namespace fast {
MSL_TRANSCENDENTAL
}
namespace precise {
MSL_TRANSCENDENTAL
}
MSL_TRANSCENDENTAL
#undef MSL_TRANSCENDENTAL

MSL_UNARY(sinh)
MSL_UNARY(cosh)
MSL_UNARY(asin)
MSL_UNARY(acos)
MSL_UNARY(atan)
MSL_UNARY(fabs)
MSL_UNARY(floor)
MSL_UNARY(ceil)
MSL_UNARY(trunc)
MSL_UNARY(round)
MSL_UNARY(rint)
MSL_UNARY(fract)
MSL_UNARY(saturate)
MSL_UNARY(sign)
MSL_BINARY(atan2)
MSL_BINARY(fmod)
MSL_BINARY(fmax)
MSL_BINARY(fmin)
MSL_BINARY(copysign)
MSL_BINARY(step)
#undef MSL_BINARY
#undef MSL_UNARY

#define MSL_TERNARY(name) \
	float name(float, float, float); \
	half name(half, half, half); \
	float2 name(float2, float2, float2); \
	float3 name(float3, float3, float3); \
	float4 name(float4, float4, float4);
MSL_TERNARY(fma)
MSL_TERNARY(mix)
#undef MSL_TERNARY
float ldexp(float, int);
float sincos(float, __private float&);

#define MSL_PREDICATE(name) \
	bool name(float); \
	bool name(half); \
	bool2 name(float2); \
	bool4 name(float4);
MSL_PREDICATE(isnan)
MSL_PREDICATE(isinf)
MSL_PREDICATE(isfinite)
MSL_PREDICATE(signbit)
#undef MSL_PREDICATE

float dot(float2, float2);
float dot(float3, float3);
float dot(float4, float4);
half dot(half2, half2);
half dot(half4, half4);

template <typename T>
T max(T, T);
template <typename T>
T min(T, T);
template <typename T>
T clamp(T, T, T);
template <typename T>
T abs(T);
template <typename T>
T absdiff(T, T);
template <typename T, typename B>
T select(T, T, B);
template <typename B>
bool any(B);
template <typename B>
bool all(B);

template <typename T>
T popcount(T);
template <typename T>
T clz(T);
template <typename T>
T ctz(T);
template <typename T>
T reverse_bits(T);
template <typename T>
T extract_bits(T, uint, uint);
template <typename T>
T insert_bits(T, T, uint, uint);
template <typename T>
T rotate(T, T);
template <typename T>
T mulhi(T, T);

}  // namespace metal
