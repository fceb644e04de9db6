// The merging of the blocks of a row and head, bit by bit as kernels/shared/metal/attention_merge.h does it: what
// attn_merge and attn_merge_gate share.
//
// A thread block does WARP dims. Some warps load partials, others find out from the stats how much each of them counts; the
// former weigh what they have, and then one warp adds the products up in order, a fused multiply-add a block, while another
// does so with the sums. It does so with few instructions: they have to be fetched each time.
#pragma once
#include "kernels/shared/cuda/attention.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {

constexpr uint32_t MERGE_BLOCKS = 128, MERGE_LOADERS = 8, MERGE_WEIGHERS = MERGE_BLOCKS / WARP;
constexpr uint32_t MERGE_THREADS = (MERGE_LOADERS + MERGE_WEIGHERS) * WARP;
constexpr uint32_t MERGE_AHEAD = 8;  // blocks that are loaded before they are added
constexpr uint32_t VECTOR = 4, ROW_VECTORS = WARP / VECTOR;

struct MergeShared {
	// Partials of a block, weighed at last; behind the dims comes the sum. Behind the last block is room for what is loaded
	// ahead.
	float weighed[MERGE_BLOCKS + MERGE_AHEAD][WARP + VECTOR];
	float before[MERGE_BLOCKS + MERGE_AHEAD];  // how much the blocks before one count when it comes
	float now[MERGE_BLOCKS];                   // how much it counts itself
	float inverse;
};

// x = before[i] x + weighed[i][column] over `blocks` blocks. What comes next is under way: the lanes meet, or the compiler
// would load it late.
__device__ __forceinline__ float in_order(float x, uint32_t blocks, const MergeShared& s, uint32_t column) {
	float before[2][MERGE_AHEAD], more[2][MERGE_AHEAD];
	const auto load = [&](uint32_t first, uint32_t turn) {
#pragma unroll
		for (uint32_t i = 0; i < MERGE_AHEAD; i++) before[turn][i] = s.before[first + i], more[turn][i] = s.weighed[first + i][column];
	};
	load(0, 0);
#pragma unroll 1
	for (uint32_t first = 0; first < blocks; first += 2 * MERGE_AHEAD)
#pragma unroll
		for (uint32_t turn = 0; turn < 2; turn++) {
			load(first + (turn + 1) * MERGE_AHEAD, 1 - turn);
			__syncwarp();
#pragma unroll
			for (uint32_t i = 0; i < MERGE_AHEAD; i++) x = __fmaf_rn(x, before[turn][i], more[turn][i]);
		}
	return x;
}

// 16 bytes, or none, which are zeros.
__device__ __forceinline__ void copy_or_zero(float* to, const float* from, bool some) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from), "r"(some ? 16 : 0) : "memory");
}

// factor_of(r, h, d): what dim d of the head's result is multiplied by, read before the wait for the record before.
template <typename ARGS, typename FACTOR>
__device__ __forceinline__ void merge_blocks(const float* partial, const float* stats, const uint32_t* step, float* o, const ARGS& a, FACTOR factor_of) {
	__shared__ alignas(16) MergeShared s;
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, t = blockIdx.y, r = t / a.q_heads, d = blockIdx.x * WARP + lane;
	const float2* stat = reinterpret_cast<const float2*>(stats) + size_t(t) * a.blocks;
	const uint32_t blocks = uint32_t((keys_seen(position(step), r, uint64_t(a.blocks) * LW_ATTN_BLOCK) + LW_ATTN_BLOCK - 1) / LW_ATTN_BLOCK);
	const float factor = warp == 0 ? factor_of(r, t % a.q_heads, d) : 0.0f;
	wait_for_previous();

	// Warp 0 has the result, warp 1 its sum; weighers have the maximum of the blocks before `base`.
	float x = 0.0f, most = ATTN_LOWEST;
	for (uint32_t base = 0; base < blocks; base += MERGE_BLOCKS) {
		const uint32_t count = min(blocks - base, MERGE_BLOCKS);
		// Of each block in turn a loader has four dims, which nobody else touches until they are weighed.
		constexpr uint32_t STRIDE = MERGE_LOADERS * WARP / ROW_VECTORS;
		const uint32_t own = threadIdx.x / ROW_VECTORS, vector = threadIdx.x % ROW_VECTORS * VECTOR;
		const bool loads = warp < MERGE_LOADERS;
		if (loads) {
			const float* from = partial + (size_t(t) * a.blocks + base + own) * a.head_dim + blockIdx.x * WARP + vector;
#pragma unroll
			for (uint32_t b = 0; b < MERGE_BLOCKS; b += STRIDE, from += size_t(STRIDE) * a.head_dim)
				copy_or_zero(&s.weighed[own + b][vector], own + b < count ? from : partial, own + b < count);
			asm volatile("cp.async.wait_all;" ::: "memory");
		} else {
			// Of the blocks before its own WARP a weigher needs the maximum only.
			const uint32_t chunk = warp - MERGE_LOADERS;
			float2 of[MERGE_WEIGHERS];
#pragma unroll
			for (uint32_t j = 0; j < MERGE_WEIGHERS; j++) of[j] = j * WARP + lane < count ? __ldcg(stat + base + j * WARP + lane) : float2{};
			float max_here = ATTN_LOWEST, sum_here = 0.0f, earlier = most;
#pragma unroll
			for (uint32_t j = 0; j < MERGE_WEIGHERS; j++) {
				const float max = of[j].y == 0.0f ? ATTN_LOWEST : of[j].x;
				if (j < chunk) earlier = fmaxf(earlier, max);
				if (j == chunk) max_here = max, sum_here = of[j].y;
				most = fmaxf(most, max);
			}
			earlier = greatest_of_lanes(earlier);
			most = greatest_of_lanes(most);
			float top = max_here;
#pragma unroll
			for (uint32_t by = 1; by < WARP; by *= 2) {
				const float other = __shfl_up_sync(~0u, top, by);
				if (lane >= by) top = fmaxf(top, other);
			}
			top = fmaxf(top, earlier);
			const float previous = __shfl_up_sync(~0u, top, 1);
			const float before = expf(__fsub_rn(lane == 0 ? earlier : previous, top)), now = sum_here == 0.0f ? 0.0f : expf(__fsub_rn(max_here, top));
			const uint32_t b = chunk * WARP + lane;
			s.now[b] = now;
			s.before[b] = before;
			s.weighed[b][WARP] = __fmul_rn(sum_here, now);
		}
		__syncthreads();
		if (loads)
#pragma unroll
			for (uint32_t b = own; b < MERGE_BLOCKS; b += STRIDE) {
				const float now = s.now[b];
				float4& v = *reinterpret_cast<float4*>(&s.weighed[b][vector]);
				const float4 x = v;
				// What does not count may be no number.
				v = now == 0.0f ? float4{} : float4{__fmul_rn(x.x, now), __fmul_rn(x.y, now), __fmul_rn(x.z, now), __fmul_rn(x.w, now)};
			}
		__syncthreads();
		if (warp < 2) x = in_order(x, count, s, warp == 0 ? lane : WARP);
		if (base + MERGE_BLOCKS < blocks) __syncthreads();
	}
	if (threadIdx.x == WARP) s.inverse = x == 0.0f ? 0.0f : __fdiv_rn(1.0f, x);
	__syncthreads();
	if (warp == 0) o[size_t(t) * a.head_dim + d] = __fmul_rn(__fmul_rn(x, s.inverse), factor);
}

// head_dim is a multiple of WARP.
template <typename ARGS> bool merge_shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const ARGS*>(words);
	*out = {{a.head_dim / WARP, a.rows * a.q_heads, 1}, MERGE_THREADS, 0};
	return true;
}

}  // namespace lw_cuda
