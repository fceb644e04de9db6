// Types of collectives, barriers and atomics; what they do is each target's (simd.h, atomics.h beside metal_stdlib).
#pragma once
#include "native/shim/core/base.h"

namespace metal {

// One bit a lane.
struct simd_vote {
	typedef ulong vote_t;
	vote_t v;
	MSL_BOTH explicit simd_vote(vote_t x = 0) : v(x) {}
	MSL_BOTH explicit operator vote_t() const { return v; }
	MSL_BOTH bool all() const { return v == 0xffffffffull; }
	MSL_BOTH bool any() const { return v != 0; }
};

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
MSL_BOTH mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

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

}  // namespace metal
