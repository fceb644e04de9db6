// vec<T, N>: .x .y .z .w, [], operators element by element. No swizzles: kernels keep to what all compilers take.
#pragma once
#include "native/shim/core/floats.h"

namespace metal {

template <typename T, int N>
struct vec;

#define MSL_ELEMENTS \
	MSL_BOTH T& operator[](int i) { return (&x)[i]; } \
	MSL_BOTH const T& operator[](int i) const { return (&x)[i]; }

template <typename T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
	T x, y;
	vec() = default;
	MSL_BOTH vec(T s) : x(s), y(s) {}
	MSL_BOTH vec(T a, T b) : x(a), y(b) {}
	template <typename U>
	MSL_BOTH explicit vec(vec<U, 2> o) : x(T(o.x)), y(T(o.y)) {}
	MSL_ELEMENTS
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
	T x, y, z;
	vec() = default;
	MSL_BOTH vec(T s) : x(s), y(s), z(s) {}
	MSL_BOTH vec(T a, T b, T c) : x(a), y(b), z(c) {}
	MSL_BOTH vec(vec<T, 2> a, T b) : x(a.x), y(a.y), z(b) {}
	template <typename U>
	MSL_BOTH explicit vec(vec<U, 3> o) : x(T(o.x)), y(T(o.y)), z(T(o.z)) {}
	MSL_ELEMENTS
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
	T x, y, z, w;
	vec() = default;
	MSL_BOTH vec(T s) : x(s), y(s), z(s), w(s) {}
	MSL_BOTH vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
	MSL_BOTH vec(vec<T, 2> a, vec<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
	MSL_BOTH vec(vec<T, 3> a, T b) : x(a.x), y(a.y), z(a.z), w(b) {}
	template <typename U>
	MSL_BOTH explicit vec(vec<U, 4> o) : x(T(o.x)), y(T(o.y)), z(T(o.z)), w(T(o.w)) {}
	MSL_ELEMENTS
};
#undef MSL_ELEMENTS

// A scalar beside a vector of T stands for as many equal elements.
#define MSL_SCALAR typename S, typename = typename std::enable_if<std::is_convertible<S, T>::value>::type

#define MSL_OPERATOR(op, R, cast) \
	template <typename T, int N> \
	MSL_BOTH vec<R, N> operator op(vec<T, N> a, vec<T, N> b) { \
		vec<R, N> r; \
		for (int i = 0; i < N; i++) r[i] = cast(a[i] op b[i]); \
		return r; \
	} \
	template <typename T, int N, MSL_SCALAR> \
	MSL_BOTH vec<R, N> operator op(vec<T, N> a, S b) { \
		vec<R, N> r; \
		for (int i = 0; i < N; i++) r[i] = cast(a[i] op T(b)); \
		return r; \
	} \
	template <typename T, int N, MSL_SCALAR> \
	MSL_BOTH vec<R, N> operator op(S a, vec<T, N> b) { \
		vec<R, N> r; \
		for (int i = 0; i < N; i++) r[i] = cast(T(a) op b[i]); \
		return r; \
	}

#define MSL_ARITHMETIC(op) \
	MSL_OPERATOR(op, T, T) \
	template <typename T, int N, typename S> \
	MSL_BOTH vec<T, N>& operator op##=(vec<T, N>& a, S b) { \
		return a = a op b; \
	}

MSL_ARITHMETIC(+)
MSL_ARITHMETIC(-)
MSL_ARITHMETIC(*)
MSL_ARITHMETIC(/)
MSL_ARITHMETIC(%)
MSL_ARITHMETIC(&)
MSL_ARITHMETIC(|)
MSL_ARITHMETIC(^)
MSL_ARITHMETIC(<<)
MSL_ARITHMETIC(>>)

MSL_OPERATOR(<, bool, bool)
MSL_OPERATOR(>, bool, bool)
MSL_OPERATOR(<=, bool, bool)
MSL_OPERATOR(>=, bool, bool)
MSL_OPERATOR(==, bool, bool)
MSL_OPERATOR(!=, bool, bool)
MSL_OPERATOR(&&, bool, bool)
MSL_OPERATOR(||, bool, bool)
#undef MSL_ARITHMETIC
#undef MSL_OPERATOR
#undef MSL_SCALAR

template <typename T, int N>
MSL_BOTH vec<T, N> operator-(vec<T, N> a) {
	for (int i = 0; i < N; i++) a[i] = T(-a[i]);
	return a;
}
template <typename T, int N>
MSL_BOTH vec<T, N> operator~(vec<T, N> a) {
	for (int i = 0; i < N; i++) a[i] = T(~a[i]);
	return a;
}
template <int N>
MSL_BOTH vec<bool, N> operator!(vec<bool, N> a) {
	for (int i = 0; i < N; i++) a[i] = !a[i];
	return a;
}

template <int N>
MSL_BOTH bool any(vec<bool, N> a) {
	bool found = false;
	for (int i = 0; i < N; i++) found = found || a[i];
	return found;
}
template <int N>
MSL_BOTH bool all(vec<bool, N> a) {
	bool every = true;
	for (int i = 0; i < N; i++) every = every && a[i];
	return every;
}
template <typename T, int N>
MSL_BOTH T dot(vec<T, N> a, vec<T, N> b) {
	T sum = a[0] * b[0];
	for (int i = 1; i < N; i++) sum += a[i] * b[i];
	return sum;
}

#define MSL_NAMES(T) \
	typedef vec<T, 2> T##2; \
	typedef vec<T, 3> T##3; \
	typedef vec<T, 4> T##4;
MSL_NAMES(float)
MSL_NAMES(half)
MSL_NAMES(bfloat)
MSL_NAMES(bool)
MSL_NAMES(char)
MSL_NAMES(uchar)
MSL_NAMES(short)
MSL_NAMES(ushort)
MSL_NAMES(int)
MSL_NAMES(uint)
MSL_NAMES(long)
MSL_NAMES(ulong)
#undef MSL_NAMES

}  // namespace metal
