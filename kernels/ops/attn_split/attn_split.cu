// For block b of LW_ATTN_BLOCK keys: stats[r,h,b] = (m, sum_j exp(s_j - m)) and partial[r,h,b] =
// sum_j exp(s_j - m) v[j], with s_j = scale * q[r,h] . k[j], m = max_j s_j and j the keys of the block up to
// pos + r. A block behind pos + r is left alone; a block that pos + r reaches but the cache does not gets the stats
// of no keys. A thread block does one block of keys for up to R rows and ATTN_HEADS query heads of one key head, on matrix
// units (kernels/shared/cuda/attention.cuh): grid = (rows / R, blocks, kv * head_tiles + tile).
#include "kernels/shared/cuda/attention.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

template <typename F>
__global__ void __launch_bounds__(ATTN_THREADS, F::R == 1 ? 2 : 1)
split_block(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* partial, float* stats,
            const __grid_constant__ attn_split_args a, unsigned long long* stamp) {
	let_next_begin();
	extern __shared__ float4 shared[];
	constexpr uint32_t D = F::D, R = F::R;
	auto& s = *reinterpret_cast<typename F::Shared*>(shared);
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	const uint32_t tiles = head_tiles(a.q_heads, a.kv_heads), kv = blockIdx.z / tiles, b = blockIdx.y, r0 = blockIdx.x * R, rows = min(R, a.rows - r0);
	const HeadTile heads = head_tile(a.q_heads, a.kv_heads, kv, blockIdx.z % tiles);
	const uint64_t first = uint64_t(b) * LW_ATTN_BLOCK;
	const size_t at = (size_t(kv) * a.ctx + first) * (D * 2);
	if (first < a.ctx) prefetch_block<D>(k_cache + at, v_cache + at, uint32_t(min(a.ctx - first, uint64_t(LW_ATTN_BLOCK))), warp, lane);
	wait_for_previous();
	const uint32_t pos = step[LW_STEP_POS];
	// Of the last row.
	const uint64_t keys = keys_seen(pos, r0 + rows - 1, a.ctx);
	// Of head i of row r, at i * a.blocks.
	const auto block_of = [&](uint32_t r) { return (size_t(r0 + r) * a.q_heads + heads.first) * a.blocks + b; };
	const auto reaches = [&](uint32_t r) { return r < rows && first <= uint64_t(pos) + r0 + r; };
	if (first < keys && heads.count) {
		const uint32_t most = uint32_t(min(keys - first, uint64_t(LW_ATTN_BLOCK)));
		stage_queries<F>(s, [&](uint32_t r) { return q + (size_t(r0 + r) * a.q_heads + heads.first) * D; }, [&](uint32_t r) { return r < rows ? heads.count : 0; }, a.scale, warp, lane);
		__syncthreads();
		const auto seen = [&](uint32_t r) {
			const uint64_t n = keys_seen(pos, r0 + r, a.ctx);
			return first < n ? uint32_t(min(n - first, uint64_t(most))) : 0;
		};
		attend_block<F>(s, k_cache + at, v_cache + at, most, seen, warp, lane, [&](uint32_t, uint32_t r, uint32_t i, uint32_t d, float4 x) {
			if (i < heads.count && reaches(r)) *reinterpret_cast<float4*>(partial + (block_of(r) + size_t(i) * a.blocks) * D + d) = x;
		});
	}
	const uint32_t r = threadIdx.x / ATTN_HEADS, i = threadIdx.x % ATTN_HEADS;
	if (i < heads.count && reaches(r))
		*reinterpret_cast<float2*>(stats + (block_of(r) + size_t(i) * a.blocks) * 2) = first < keys ? stat_of<F>(s, r, i) : float2{ATTN_LOWEST, 0.0f};
	stamp_end(stamp);
}

template <typename F> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const attn_split_args*>(words);
	if (F::R != attend_rows(F::D, a.rows)) return false;
	*out = {{(a.rows + F::R - 1) / F::R, a.blocks, a.kv_heads * head_tiles(a.q_heads, a.kv_heads)}, ATTN_THREADS, sizeof(typename F::Shared)};
	return true;
}

#define LW_SPLIT(D, R) RegisterOverride split_h##D##_r##R("attn_split__f16_h" #D, (const void*)split_block<AttnForm<D, R>>, 6, sizeof(attn_split_args), shape<AttnForm<D, R>>);
LW_ATTEND_FORMS(LW_SPLIT)

}  // namespace
}  // namespace lw_cuda
