// order = pairs r * top_k + k stably sorted by ids[r,k]; offsets[e] .. offsets[e + 1] is the run of expert e. Pairs whose
// id is no expert come behind all runs. One threadgroup does it all: a counting sort in which simdgroup s has the s-th
// eighth of the pairs and counters of its own, so that places follow from counts alone. Experts beyond WINDOW take
// further passes. Threadgroup memory: 24576 + 32 bytes.
#include "kernels/shared/metal/base.h"

constant constexpr uint SIMDGROUPS = LW_THREADS_moe_sort / SIMD;
// Runs of one pass (the last run of all is that of no expert), runs that a thread adds up, bits of a run's number.
constant constexpr uint WINDOW = 768;
constant constexpr uint RUNS = WINDOW / LW_THREADS_moe_sort;
constant constexpr uint BITS = 10;
static_assert(RUNS * LW_THREADS_moe_sort == WINDOW && WINDOW < 1 << BITS, "all runs of a window have a thread and a number");

// Lanes of the simdgroup whose `run` is this lane's.
inline uint lanes_alike(uint run) {
	uint alike = 0xffffffffu;
	for (uint b = 0; b < BITS; b++) {
		const bool set = (run >> b & 1) != 0;
		const uint lanes = uint(simd_vote::vote_t(simd_ballot(set)));
		alike &= set ? lanes : ~lanes;
	}
	return alike;
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_moe_sort)]]
void moe_sort(device const uint* ids [[buffer(0)]],
              device uint* order [[buffer(1)]],
              device uint* offsets [[buffer(2)]],
              constant moe_sort_args& a [[buffer(24)]],
              uint tid [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup uint places[SIMDGROUPS * WINDOW];
	threadgroup uint sums[SIMDGROUPS];
	threadgroup uint* mine = places + sg * WINDOW;

	const uint lines = (a.pairs + SIMD - 1) / SIMD, share = (lines + SIMDGROUPS - 1) / SIMDGROUPS * SIMD;
	const uint begin = min(sg * share, a.pairs), end = min(begin + share, a.pairs);
	const uint last = a.experts_plus1 - 1;
	uint start = 0;
	for (uint first = 0; first < a.experts_plus1; first += WINDOW) {
		for (uint i = tid; i < SIMDGROUPS * WINDOW; i += LW_THREADS_moe_sort) places[i] = 0;
		threadgroup_barrier(mem_flags::mem_threadgroup);
		for (uint p = begin + lane; p < end; p += SIMD) {
			const uint run = min(ids[p], last) - first;
			if (run < WINDOW)
				atomic_fetch_add_explicit((threadgroup atomic_uint*)(mine + run), 1u, memory_order_relaxed);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);

		// Counts become places: runs in order, in a run the simdgroups in order.
		uint count = 0;
		for (uint i = 0; i < RUNS * SIMDGROUPS; i++) count += places[i % SIMDGROUPS * WINDOW + tid * RUNS + i / SIMDGROUPS];
		const uint before = simd_prefix_exclusive_sum(count);
		if (lane == SIMD - 1) sums[sg] = before + count;
		threadgroup_barrier(mem_flags::mem_threadgroup);
		uint at = start + before;
		for (uint s = 0; s < SIMDGROUPS; s++) {
			if (s < sg) at += sums[s];
			start += sums[s];
		}
		for (uint i = 0; i < RUNS; i++) {
			const uint run = tid * RUNS + i;
			if (first + run < a.experts_plus1) offsets[first + run] = at;
			for (uint s = 0; s < SIMDGROUPS; s++) {
				const uint n = places[s * WINDOW + run];
				places[s * WINDOW + run] = at;
				at += n;
			}
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);

		// 32 pairs at a time: lanes of one run take its next places in their order.
		for (uint p0 = begin; p0 < end; p0 += SIMD) {
			const uint p = p0 + lane;
			const uint run = p < end ? min(min(ids[p], last) - first, WINDOW) : WINDOW;
			const uint alike = lanes_alike(run), ahead = popcount(alike & ((1u << lane) - 1));
			const uint place = run < WINDOW ? mine[run] + ahead : 0;
			simdgroup_barrier(mem_flags::mem_threadgroup);
			if (run < WINDOW) {
				order[place] = p;
				if (ahead == 0) mine[run] = place + popcount(alike);
			}
			simdgroup_barrier(mem_flags::mem_threadgroup);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
	}
}
