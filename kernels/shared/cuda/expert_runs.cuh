// Pairs (row, choice) sorted by expert into runs, for the products of kernels/shared/cuda/gemm.cuh: which run a block does
// and which rows of x it reads. Nothing in `order` and `offsets` is trusted.
#pragma once
#include "kernels/shared/cuda/gemm.cuh"

namespace lw_cuda {

constexpr uint32_t NO_PAIR = 0xffffffffu;

struct ExpertTile {
	uint32_t expert, first, pairs;  // order[first .. first + pairs]; no pairs: nothing to do
};

// The tile of slot `slot` of expert_launch()'s grid. Expert e has the slots from offsets[e] / tile + e on: at least as
// many as its run has tiles. The last expert that begins at the slot or before is found by 32 probes of a warp at a time.
__device__ __forceinline__ ExpertTile expert_tile(const uint32_t* offsets, uint32_t experts, uint32_t pairs, uint32_t slot, uint32_t tile) {
	const uint32_t lane = threadIdx.x % 32;
	if (experts == 0) return {0, 0, 0};
	uint32_t e = 0;
	for (uint32_t left = experts; left > 1;) {
		const uint32_t stride = (left + 31) / 32, probe = lane * stride;
		const bool begun = probe < left && offsets[e + probe] / tile + e + probe <= slot;
		const uint32_t steps = max(__popc(__ballot_sync(~0u, begun)), 1) - 1;
		e += steps * stride;
		left = min(stride, left - steps * stride);
	}
	const uint32_t begin = offsets[e], end = offsets[e + 1], before = begin / tile + e;
	if (end > pairs || begin >= end || slot < before || slot - before >= (end - begin + tile - 1) / tile) return {0, 0, 0};
	const uint32_t first = begin + (slot - before) * tile;
	return {e, first, min(end - first, tile)};
}

// Tokens of a tile for runs of this length on average. Short runs take little memory and registers, so that two blocks
// share a multiprocessor and one loads weights while the other multiplies.
constexpr int SHORT_RUN = 32, LONG_RUN = 64;
inline int run_tile(uint32_t pairs, uint32_t experts) { return pairs / 24 < experts ? SHORT_RUN : LONG_RUN; }
constexpr int blocks_of(int tokens) { return tokens == SHORT_RUN ? 2 : 1; }

// The grid of `tiles` tiles of outputs by expert_tile()'s slots. False where runs of this length are for other tiles.
template <class F, int TOKENS> bool expert_launch(uint32_t tiles, uint32_t pairs, uint32_t experts, Launch* out) {
	const uint32_t slots = pairs / TOKENS + experts;
	*out = {{tiles, slots, 1}, GEMM_THREADS, gemm_bytes<GemmShared<F, TOKENS, 2>>()};
	return has_warpgroups() && run_tile(pairs, experts) == TOKENS && tiles && slots && slots < 65536;
}

// The pairs of a tile, NO_PAIR behind them and for what is no pair, and the rows that they read, pair / top_k or row 0.
template <int TOKENS> __device__ __forceinline__ void list_pairs(const uint32_t* order, const ExpertTile& t, uint32_t pairs, uint32_t top_k, uint32_t* pair, uint32_t* rows) {
	if (threadIdx.x >= TOKENS) return;
	const uint32_t p = threadIdx.x < t.pairs ? order[t.first + threadIdx.x] : NO_PAIR;
	pair[threadIdx.x] = p < pairs ? p : NO_PAIR;
	rows[threadIdx.x] = p < pairs ? p / top_k : 0;
}

// Calls run(columns) with the smallest width of the product that holds the tile's pairs, as a constant.
template <int N> struct Columns {
	static constexpr int count = N;
};
template <int TOKENS, class RUN> __device__ __forceinline__ void with_columns(uint32_t pairs, RUN&& run) {
	if (pairs <= 16) run(Columns<16>());
	else if (TOKENS == SHORT_RUN && pairs <= 24) run(Columns<24>());
	else if (TOKENS == SHORT_RUN || pairs <= 32) run(Columns<32>());
	else run(Columns<TOKENS>());
}

}  // namespace lw_cuda
