// Relaxed atomics on device and threadgroup memory.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };

template <typename T>
struct _atomic {
	T v;
};
template <typename T>
using atomic = _atomic<T>;
typedef _atomic<int> atomic_int;
typedef _atomic<uint> atomic_uint;
typedef _atomic<float> atomic_float;

#define MSL_FETCH(SPACE, name) \
	template <typename T> \
	T atomic_##name##_explicit(volatile SPACE _atomic<T>*, typename same_as_others<T>::type, memory_order);
#define MSL_ATOMICS(SPACE) \
	template <typename T> \
	T atomic_load_explicit(const volatile SPACE _atomic<T>*, memory_order); \
	template <typename T> \
	void atomic_store_explicit(volatile SPACE _atomic<T>*, typename same_as_others<T>::type, memory_order); \
	template <typename T> \
	bool atomic_compare_exchange_weak_explicit(volatile SPACE _atomic<T>*, __private T*, typename same_as_others<T>::type, memory_order, memory_order); \
	MSL_FETCH(SPACE, exchange) \
	MSL_FETCH(SPACE, fetch_add) \
	MSL_FETCH(SPACE, fetch_sub) \
	MSL_FETCH(SPACE, fetch_and) \
	MSL_FETCH(SPACE, fetch_or) \
	MSL_FETCH(SPACE, fetch_xor) \
	MSL_FETCH(SPACE, fetch_max) \
	MSL_FETCH(SPACE, fetch_min)
MSL_ATOMICS(__global)
MSL_ATOMICS(__local)
#undef MSL_ATOMICS
#undef MSL_FETCH

}  // namespace metal
