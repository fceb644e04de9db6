// Relaxed atomics on device and threadgroup memory, of 32-bit values.
#pragma once
#include "native/shim/core/sync_types.h"

namespace metal {

template <typename T>
MSL_FN T atomic_load_explicit(const volatile _atomic<T>* p, memory_order) {
	return p->v;
}
template <typename T>
MSL_FN void atomic_store_explicit(volatile _atomic<T>* p, typename same_as_others<T>::type v, memory_order) {
	p->v = v;
}

#define MSL_ATOMIC(name, intrinsic) \
	template <typename T> \
	MSL_FN T name(volatile _atomic<T>* p, typename same_as_others<T>::type v, memory_order) { \
		return intrinsic(const_cast<T*>(&p->v), v); \
	}
MSL_ATOMIC(atomic_exchange_explicit, atomicExch)
MSL_ATOMIC(atomic_fetch_add_explicit, atomicAdd)
MSL_ATOMIC(atomic_fetch_sub_explicit, atomicSub)
MSL_ATOMIC(atomic_fetch_and_explicit, atomicAnd)
MSL_ATOMIC(atomic_fetch_or_explicit, atomicOr)
MSL_ATOMIC(atomic_fetch_xor_explicit, atomicXor)
MSL_ATOMIC(atomic_fetch_max_explicit, atomicMax)
MSL_ATOMIC(atomic_fetch_min_explicit, atomicMin)
#undef MSL_ATOMIC

template <typename T>
MSL_FN bool atomic_compare_exchange_weak_explicit(volatile _atomic<T>* p, T* expected, typename same_as_others<T>::type v, memory_order, memory_order) {
	const int wanted = bitcast<int>(*expected);
	const int found = atomicCAS(reinterpret_cast<int*>(const_cast<T*>(&p->v)), wanted, bitcast<int>(v));
	*expected = bitcast<T>(found);
	return found == wanted;
}

}  // namespace metal
