// The merging of the blocks of a row and head, bit by bit as kernels/shared/metal/attention_merge.h does it: what
// attn_merge and attn_merge_gate share.
//
// A thread block does WARP dims. Some warps load partials, others find out from the stats how much each of them counts; the
// former weigh what they have, and then one warp adds the products up in order, a fused multiply-add a block, while another
// does so with the sums. It does so with few instructions, for they have to be fetched each time, and loads numbers of four
// blocks at once.
#pragma once
#include "kernels/shared/cuda/attention.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {

constexpr uint32_t MERGE_RUN = 4;    // blocks whose numbers stand side by side
constexpr uint32_t MERGE_AHEAD = 2;  // runs that are loaded before they are added

// Up to BLOCKS blocks at a time, loaded by LOADERS warps; RESIDENT thread blocks fit a multiprocessor.
template <uint32_t BLOCKS_, uint32_t LOADERS_, uint32_t RESIDENT_> struct Merge {
	static constexpr uint32_t BLOCKS = BLOCKS_, LOADERS = LOADERS_, RESIDENT = RESIDENT_, RUNS = BLOCKS / MERGE_RUN;
	static constexpr uint32_t WEIGHERS = BLOCKS / WARP, TURNS = RUNS / LOADERS, THREADS = (LOADERS + WEIGHERS) * WARP;
	static_assert(TURNS * LOADERS == RUNS && WEIGHERS * WARP == BLOCKS && RUNS % (2 * MERGE_AHEAD) == 0, "warps have as much to do");

	struct Shared {
		// Partials of a block, weighed; behind the dims comes the sum. Behind the last run is room for what is loaded ahead.
		float4 weighed[RUNS + MERGE_AHEAD][WARP + 1];
		float4 before[RUNS + MERGE_AHEAD];  // how much the blocks before one count when it comes
		float4 now[RUNS];                   // how much it counts itself
		float inverse;
	};
};

// x = before[i] x + weighed[i][column] over `runs` runs. What comes next is under way: the lanes meet, or the compiler
// would load it late.
template <typename SHARED> __device__ __forceinline__ float in_order(float x, uint32_t runs, const SHARED& s, uint32_t column) {
	float4 before[2][MERGE_AHEAD], more[2][MERGE_AHEAD];
	const auto load = [&](uint32_t first, uint32_t turn) {
#pragma unroll
		for (uint32_t i = 0; i < MERGE_AHEAD; i++) before[turn][i] = s.before[first + i], more[turn][i] = s.weighed[first + i][column];
	};
	load(0, 0);
#pragma unroll 1
	for (uint32_t first = 0; first < runs; first += 2 * MERGE_AHEAD)
#pragma unroll
		for (uint32_t turn = 0; turn < 2; turn++) {
			load(first + (turn + 1) * MERGE_AHEAD, 1 - turn);
			__syncwarp();
#pragma unroll
			for (uint32_t i = 0; i < MERGE_AHEAD; i++) {
				const float4 &f = before[turn][i], &y = more[turn][i];
				x = __fmaf_rn(__fmaf_rn(__fmaf_rn(__fmaf_rn(x, f.x, y.x), f.y, y.y), f.z, y.z), f.w, y.w);
			}
		}
	return x;
}

// factor_of(r, h, d): what dim d of the head's result is multiplied by, read before the wait for the record before.
template <typename M, typename ARGS, typename FACTOR>
__device__ __forceinline__ void merge_blocks(const float* partial, const float* stats, const uint32_t* step, float* o, const ARGS& a, FACTOR factor_of) {
	__shared__ alignas(16) typename M::Shared s;
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, t = blockIdx.y, r = t / a.q_heads, d = blockIdx.x * WARP + lane;
	const float2* stat = reinterpret_cast<const float2*>(stats) + size_t(t) * a.blocks;
	const uint32_t blocks = uint32_t((keys_seen(position(step), r, uint64_t(a.blocks) * LW_ATTN_BLOCK) + LW_ATTN_BLOCK - 1) / LW_ATTN_BLOCK);
	const float factor = warp == 0 ? factor_of(r, t % a.q_heads, d) : 0.0f;
	wait_for_previous();

	// Warp 0 has the result, warp 1 its sum; weighers have the maximum of the blocks before `base`.
	float x = 0.0f, most = ATTN_LOWEST;
	for (uint32_t base = 0; base < blocks; base += M::BLOCKS) {
		const uint32_t count = min(blocks - base, M::BLOCKS);
		// A loader has a dim of every so manyth run of blocks.
		float loaded[M::TURNS][MERGE_RUN];
		const bool loads = warp < M::LOADERS;
		if (loads) {
			const float* from = partial + (size_t(t) * a.blocks + base + warp * MERGE_RUN) * a.head_dim + d;
#pragma unroll
			for (uint32_t n = 0; n < M::TURNS; n++, from += size_t(M::LOADERS - 1) * MERGE_RUN * a.head_dim)
#pragma unroll
				for (uint32_t i = 0; i < MERGE_RUN; i++, from += a.head_dim) {
					loaded[n][i] = 0.0f;
					if ((n * M::LOADERS + warp) * MERGE_RUN + i < count) loaded[n][i] = __ldcg(from);
				}
		} else {
			// Of the blocks before its own WARP a weigher needs the maximum only.
			const uint32_t chunk = warp - M::LOADERS;
			float2 of[M::WEIGHERS];
#pragma unroll
			for (uint32_t j = 0; j < M::WEIGHERS; j++) of[j] = j * WARP + lane < count ? __ldcg(stat + base + j * WARP + lane) : float2{};
			float max_here = ATTN_LOWEST, sum_here = 0.0f, earlier = most;
#pragma unroll
			for (uint32_t j = 0; j < M::WEIGHERS; j++) {
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
			reinterpret_cast<float*>(s.now)[b] = now;
			reinterpret_cast<float*>(s.before)[b] = before;
			reinterpret_cast<float*>(&s.weighed[b / MERGE_RUN][WARP])[b % MERGE_RUN] = __fmul_rn(sum_here, now);
		}
		__syncthreads();
#pragma unroll
		for (uint32_t n = 0; loads && n < M::TURNS; n++) {
			const uint32_t run = n * M::LOADERS + warp;
			const float4 now = s.now[run];
			// What does not count may be no number.
			const auto weighed = [](float x, float now) { return now == 0.0f ? 0.0f : __fmul_rn(x, now); };
			s.weighed[run][lane] = {weighed(loaded[n][0], now.x), weighed(loaded[n][1], now.y), weighed(loaded[n][2], now.z), weighed(loaded[n][3], now.w)};
		}
		__syncthreads();
		if (warp < 2) x = in_order(x, (count + MERGE_RUN - 1) / MERGE_RUN, s, warp == 0 ? lane : WARP);
		if (base + M::BLOCKS < blocks) __syncthreads();
	}
	if (threadIdx.x == WARP) s.inverse = x == 0.0f ? 0.0f : __fdiv_rn(1.0f, x);
	__syncthreads();
	if (warp == 0) o[size_t(t) * a.head_dim + d] = __fmul_rn(__fmul_rn(x, s.inverse), factor);
}

// head_dim is a multiple of WARP. Few blocks take few threads, so that those of many rows are there at once.
typedef Merge<64, 4, 4> MergeFew;
typedef Merge<160, 8, 2> MergeMany;
template <typename M, typename ARGS> bool merge_shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const ARGS*>(words);
	if ((a.blocks <= MergeFew::BLOCKS) != (M::BLOCKS == MergeFew::BLOCKS)) return false;
	*out = {{a.head_dim / WARP, a.rows * a.q_heads, 1}, M::THREADS, 0};
	return true;
}

}  // namespace lw_cuda
