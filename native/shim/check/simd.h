// Collectives and barriers.
#pragma once

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);


#define MSL_EACH(name) \
	template <typename T> \
	T name(T);
#define MSL_EACH_LANE(name) \
	template <typename T> \
	T name(T, ushort);
MSL_EACH(simd_sum)
MSL_EACH(simd_product)
MSL_EACH(simd_max)
MSL_EACH(simd_min)
MSL_EACH(simd_and)
MSL_EACH(simd_or)
MSL_EACH(simd_xor)
MSL_EACH(simd_prefix_inclusive_sum)
MSL_EACH(simd_prefix_exclusive_sum)
MSL_EACH(simd_broadcast_first)
MSL_EACH_LANE(simd_shuffle)
MSL_EACH_LANE(simd_shuffle_xor)
MSL_EACH_LANE(simd_shuffle_down)
MSL_EACH_LANE(simd_shuffle_up)
MSL_EACH_LANE(simd_broadcast)
#undef MSL_EACH_LANE
#undef MSL_EACH

// A number here: a temporary of class type has no address space that a method of its could name.
struct simd_vote {
	typedef ulong vote_t;
};
ulong simd_ballot(bool);
bool simd_any(bool);
bool simd_all(bool);

}  // namespace metal
