// Order, choice and bits: functions of integers, and those that take integers and floats alike. Both operands of
// max, min and clamp have one type: the standard library calls anything else ambiguous.
#pragma once
#include "native/shim/core/math.h"

namespace metal {

template <typename T>
MSL_FN T max(T a, T b) {
	return a < b ? b : a;
}
template <typename T>
MSL_FN T min(T a, T b) {
	return b < a ? b : a;
}
// With a NaN the other operand wins.
template <>
MSL_FN float max<float>(float a, float b) {
	return ::fmaxf(a, b);
}
template <>
MSL_FN float min<float>(float a, float b) {
	return ::fminf(a, b);
}
template <typename T, int N>
MSL_FN vec<T, N> max(vec<T, N> a, vec<T, N> b) {
	for (int i = 0; i < N; i++) a[i] = max(a[i], b[i]);
	return a;
}
template <typename T, int N>
MSL_FN vec<T, N> min(vec<T, N> a, vec<T, N> b) {
	for (int i = 0; i < N; i++) a[i] = min(a[i], b[i]);
	return a;
}
template <typename T>
MSL_FN T clamp(T v, T low, T high) {
	return min(max(v, low), high);
}

MSL_FN float abs(float a) { return ::fabsf(a); }
MSL_FN int abs(int a) { return a < 0 ? -a : a; }
MSL_FN uint abs(uint a) { return a; }
template <typename T, int N>
MSL_FN vec<T, N> abs(vec<T, N> v) {
	for (int i = 0; i < N; i++) v[i] = abs(v[i]);
	return v;
}

// b where c holds.
template <typename T>
MSL_FN T select(T a, T b, bool c) {
	return c ? b : a;
}
template <typename T, int N>
MSL_FN vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) {
	for (int i = 0; i < N; i++) a[i] = c[i] ? b[i] : a[i];
	return a;
}

template <typename T>
MSL_FN T popcount(T v) {
	typedef typename std::make_unsigned<T>::type U;
#ifdef __CUDA_ARCH__
	return T(__popcll((unsigned long long)U(v)));
#else
	return T(__builtin_popcountll((unsigned long long)U(v)));
#endif
}

// Zero bits above the highest and below the lowest one; all bits for 0.
template <typename T>
MSL_FN T clz(T v) {
	typedef typename std::make_unsigned<T>::type U;
	constexpr int bits = 8 * sizeof(T);
	if (U(v) == 0) return T(bits);
#ifdef __CUDA_ARCH__
	return T(__clzll((long long)U(v)) - (64 - bits));
#else
	return T(__builtin_clzll((unsigned long long)U(v)) - (64 - bits));
#endif
}
template <typename T>
MSL_FN T ctz(T v) {
	typedef typename std::make_unsigned<T>::type U;
	if (U(v) == 0) return T(8 * sizeof(T));
#ifdef __CUDA_ARCH__
	return T(__ffsll((long long)U(v)) - 1);
#else
	return T(__builtin_ctzll((unsigned long long)U(v)));
#endif
}
template <typename T>
MSL_FN T reverse_bits(T v) {
	typedef typename std::make_unsigned<T>::type U;
	U reversed = 0;
	for (uint i = 0; i < 8 * sizeof(T); i++) reversed = U(reversed << 1 | (U(v) >> i & 1));
	return T(reversed);
}

// Bits [offset, offset + bits) of v, with v's sign where T has one.
template <typename T>
MSL_FN T extract_bits(T v, uint offset, uint bits) {
	constexpr uint width = 8 * sizeof(T);
	if (bits == 0) return T(0);
	typedef typename std::make_unsigned<T>::type U;
	return T(T(U(U(v) << (width - bits - offset))) >> (width - bits));
}
template <typename T>
MSL_FN T insert_bits(T base, T inserted, uint offset, uint bits) {
	typedef typename std::make_unsigned<T>::type U;
	constexpr uint width = 8 * sizeof(T);
	if (bits == 0) return base;
	const U mask = U(U(U(~U(0)) >> (width - bits)) << offset);
	return T((U(base) & U(~mask)) | (U(U(inserted) << offset) & mask));
}

template <typename T>
MSL_FN T rotate(T v, T by) {
	typedef typename std::make_unsigned<T>::type U;
	constexpr uint width = 8 * sizeof(T);
	const uint n = uint(by) & (width - 1);
	return n == 0 ? v : T(U(U(v) << n) | U(U(v) >> (width - n)));
}

// The upper half of the product.
MSL_FN uint mulhi(uint a, uint b) { return uint((ulong(a) * b) >> 32); }
MSL_FN int mulhi(int a, int b) { return int((int64_t(a) * b) >> 32); }
template <typename T>
MSL_FN T absdiff(T a, T b) {
	return a < b ? T(b - a) : T(a - b);
}

}  // namespace metal
