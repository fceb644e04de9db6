// Scalar and vector types, constants.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef ulong size_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define MAXFLOAT FLT_MAX
#define HUGE_VALF INFINITY
#define INT_MAX 2147483647
#define UINT_MAX 4294967295u
#define M_PI_F 3.14159265358979323846f
#define M_1_PI_F 0.318309886183790671538f
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.693147180559945309417f
#define M_LOG2E_F 1.44269504088896340736f
#define M_SQRT2_F 1.41421356237309504880f

namespace metal {

typedef __bf16 bfloat;

template <typename T, int N>
using vec = T __attribute__((ext_vector_type(N)));

// `float4(...)` of the Metal Shading Language, as native/msl writes it for this target.
template <typename T, int N, typename... A>
vec<T, N> vec_of(A...);

#define MSL_NAMES(T) \
	typedef T T##2 __attribute__((ext_vector_type(2))); \
	typedef T T##3 __attribute__((ext_vector_type(3))); \
	typedef T T##4 __attribute__((ext_vector_type(4)));
MSL_NAMES(float)
MSL_NAMES(half)
MSL_NAMES(bfloat)
MSL_NAMES(char)
MSL_NAMES(uchar)
MSL_NAMES(short)
MSL_NAMES(ushort)
MSL_NAMES(int)
MSL_NAMES(uint)
MSL_NAMES(long)
MSL_NAMES(ulong)
#undef MSL_NAMES
// What comparisons of 32-bit elements give here.
typedef int2 bool2;
typedef int3 bool3;
typedef int4 bool4;

template <typename T, typename F>
T as_type(F);

template <typename T>
struct same_as_others {
	typedef T type;
};

template <typename T>
struct numeric_limits {
	static constexpr T max() { return T(0); }
	static constexpr T min() { return T(0); }
	static constexpr T lowest() { return T(0); }
	static constexpr T infinity() { return T(0); }
	static constexpr T quiet_NaN() { return T(0); }
};

}  // namespace metal
