// Where the parts of the Metal standard library begin: how functions are declared for each compiler, integer types,
// and reinterpreting bits. C++14, for g++, clang and nvcc.
#pragma once
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__F16C__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
// A function that kernels call, and one that the host may call as well.
#define MSL_FN __device__ __forceinline__
#define MSL_BOTH __host__ __device__ __forceinline__
#else
#define MSL_FN inline
#define MSL_BOTH inline __attribute__((always_inline))
#endif

#define M_PI_F 3.14159265358979323846f
#define M_1_PI_F 0.318309886183790671538f
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.693147180559945309417f
#define M_LOG2E_F 1.44269504088896340736f
#define M_SQRT2_F 1.41421356237309504880f
#ifndef MAXFLOAT
#define MAXFLOAT FLT_MAX
#endif

namespace metal {

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef uint64_t ulong;
typedef int8_t int8_t;
typedef int16_t int16_t;
typedef int32_t int32_t;
typedef int64_t int64_t;
typedef uint8_t uint8_t;
typedef uint16_t uint16_t;
typedef uint32_t uint32_t;
typedef uint64_t uint64_t;
using std::numeric_limits;
using std::size_t;

template <typename T, typename F>
MSL_BOTH T bitcast(const F& from) {
	static_assert(sizeof(T) == sizeof(F), "as_type: the sizes differ");
	T to;
	memcpy(&to, &from, sizeof to);
	return to;
}

template <typename T, typename F>
MSL_FN T as_type(F from) {
	return bitcast<T>(from);
}

// A parameter whose type comes from the other arguments alone.
template <typename T>
struct same_as_others {
	typedef T type;
};

}  // namespace metal
