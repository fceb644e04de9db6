// Relaxed atomics on device and threadgroup memory.
#pragma once
#include "native/shim/core/sync_types.h"

namespace metal {

template <typename T>
inline T atomic_load_explicit(const volatile _atomic<T>* p, memory_order) {
	T v;
	__atomic_load(&p->v, &v, __ATOMIC_RELAXED);
	return v;
}
template <typename T>
inline void atomic_store_explicit(volatile _atomic<T>* p, typename same_as_others<T>::type v, memory_order) {
	__atomic_store(&p->v, &v, __ATOMIC_RELAXED);
}
template <typename T>
inline T atomic_exchange_explicit(volatile _atomic<T>* p, typename same_as_others<T>::type v, memory_order) {
	T before;
	__atomic_exchange(&p->v, &v, &before, __ATOMIC_RELAXED);
	return before;
}
template <typename T>
inline bool atomic_compare_exchange_weak_explicit(volatile _atomic<T>* p, T* expected, typename same_as_others<T>::type v, memory_order, memory_order) {
	return __atomic_compare_exchange(&p->v, expected, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Any update, as a loop: float sums and extremes have no instruction of their own.
template <typename T, typename F>
inline T atomic_update(volatile _atomic<T>* p, T v, F update) {
	T before, after;
	__atomic_load(&p->v, &before, __ATOMIC_RELAXED);
	do after = update(before, v);
	while (!__atomic_compare_exchange(&p->v, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return before;
}

#define MSL_FETCH(name, expression) \
	template <typename T> \
	inline T atomic_fetch_##name##_explicit(volatile _atomic<T>* p, typename same_as_others<T>::type v, memory_order) { \
		return atomic_update(p, v, [](T a, T b) { return T(expression); }); \
	}
MSL_FETCH(add, a + b)
MSL_FETCH(sub, a - b)
MSL_FETCH(and, a & b)
MSL_FETCH(or, a | b)
MSL_FETCH(xor, a ^ b)
MSL_FETCH(max, a < b ? b : a)
MSL_FETCH(min, b < a ? b : a)
#undef MSL_FETCH

}  // namespace metal
