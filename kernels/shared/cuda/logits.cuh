// A row of logits in the shared memory of a cluster of thread blocks: as many multiprocessors read it as the cluster has
// thread blocks, and it is read once. Floats stand there as unsigned words of the same order, as in
// kernels/shared/metal/float_order.h. Owns sums and maxima over the cluster, and no rule of choice.
#pragma once
#include "kernels/shared/cuda/cluster.cuh"
#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"

namespace lw_cuda {

constexpr uint32_t LOGIT_CLUSTER = 8, LOGIT_THREADS = 1024, LOGIT_WARPS = LOGIT_THREADS / WARP;
constexpr uint32_t LOGITS_MAX = LOGIT_CLUSTER * 32768;

constexpr uint32_t NAN_ORDER = 0;
constexpr uint32_t LOWEST_ORDER = 0x007fffff;    // -infinity
constexpr uint32_t GREATEST_ORDER = 0xff7fffff;  // the greatest finite float
constexpr uint32_t NO_INDEX = 0xffffffff;

__device__ __forceinline__ uint32_t order_of(float x) {
	const uint32_t u = __float_as_uint(x);
	if ((u & 0x7fffffff) > 0x7f800000) return NAN_ORDER;
	if (u == 0x80000000) return 0x80000000;
	return u >> 31 ? ~u : u | 0x80000000;
}
__device__ __forceinline__ float of_order(uint32_t order) { return __uint_as_float(order >> 31 ? order & 0x7fffffff : ~order); }
// Takes +inf for the greatest finite float, and NaN for -inf.
__device__ __forceinline__ uint32_t finite_or_lowest(float x) { return max(min(order_of(x), GREATEST_ORDER), LOWEST_ORDER); }

// The place of a thread, and what it has of a row: a thread block consecutive tokens from `first` on, of these a warp
// those from `begin` to `end`.
struct LogitRun {
	uint32_t rank = cluster_rank(), tid = threadIdx.x, lane = tid % WARP, warp = tid / WARP;
	uint32_t first, count, begin, end;

	__device__ void take(uint32_t n) {
		const uint32_t span = (n + 4 * LOGIT_CLUSTER - 1) / (4 * LOGIT_CLUSTER) * 4, run = (span + LOGIT_THREADS - 1) / LOGIT_THREADS * WARP;
		first = min(rank * span, n);
		count = min(span, n - first);
		begin = min(warp * run, count);
		end = min(begin + run, count);
	}
	// f(i, order of token first + i) for the tokens of the thread block, each in one thread; row begins at a multiple of 16
	// bytes. Loads of a thread are under way together.
	template <typename ORDER, typename F> __device__ void read(const float* row, ORDER order, F f) const {
		constexpr uint32_t AHEAD = 8, STEP = 4 * LOGIT_THREADS;
		const float* x = row + first;
		for (uint32_t base = 4 * tid; base < count; base += AHEAD * STEP) {
			float4 v[AHEAD];
#pragma unroll
			for (uint32_t k = 0; k < AHEAD; k++)
				if (base + k * STEP + 4 <= count) v[k] = *reinterpret_cast<const float4*>(x + base + k * STEP);
#pragma unroll
			for (uint32_t k = 0; k < AHEAD; k++) {
				const uint32_t i = base + k * STEP;
				if (i + 4 <= count) f(i, order(v[k].x)), f(i + 1, order(v[k].y)), f(i + 2, order(v[k].z)), f(i + 3, order(v[k].w));
				else
					for (uint32_t j = i; j < count; j++) f(j, order(x[j]));
			}
		}
	}
};

// The greatest order and the index of its first appearance.
struct Best {
	uint32_t order, at;

	// Indices come ascending.
	__device__ void see(uint32_t o, uint32_t i) {
		if (o > order) order = o, at = i;
	}
};
__device__ __forceinline__ Best no_best() { return {NAN_ORDER, NO_INDEX}; }
__device__ __forceinline__ Best warp_best(Best b) {
	const uint32_t order = __reduce_max_sync(~0u, b.order);
	return {order, __reduce_min_sync(~0u, b.order == order ? b.at : NO_INDEX)};
}

struct BestShared {
	Best of_warp[LOGIT_WARPS], of_block[LOGIT_CLUSTER];
};
// The best of all threads of the cluster; each gets it.
__device__ __forceinline__ Best cluster_best(const LogitRun& r, Best b, BestShared& s) {
	b = warp_best(b);
	if (r.lane == 0) s.of_warp[r.warp] = b;
	__syncthreads();
	if (r.warp == 0) {
		b = warp_best(s.of_warp[r.lane]);
		if (r.lane < LOGIT_CLUSTER) *in_block(r.lane, &s.of_block[r.rank]) = b;
	}
	sync_cluster();
	return warp_best(r.lane < LOGIT_CLUSTER ? s.of_block[r.lane] : no_best());
}

}  // namespace lw_cuda
