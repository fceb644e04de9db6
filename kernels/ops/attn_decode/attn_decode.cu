// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head.
// A thread block does up to R rows and ATTN_HEADS query heads of one key head, block of keys after block, on matrix units
// (kernels/shared/cuda/attention.cuh): the partials of attn_split, which enter a row's result as attn_merge does it.
// grid = (rows / R, kv * head_tiles + tile).
#include "kernels/shared/cuda/attention.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

// What a thread has of a row and head: of the blocks so far, maximum and sum; of one more, how much it and they count.
struct Running {
	float max = ATTN_LOWEST, sum = 0.0f, before, now;

	__device__ void see(float2 stat) {
		const float top = fmaxf(max, stat.y == 0.0f ? ATTN_LOWEST : stat.x);
		before = expf(__fsub_rn(max, top));
		now = stat.y == 0.0f ? 0.0f : expf(__fsub_rn(stat.x, top));
		sum = __fmaf_rn(sum, before, __fmul_rn(stat.y, now));
		max = top;
	}
	__device__ float add(float o, float partial) const { return now == 0.0f ? o : __fmaf_rn(o, before, __fmul_rn(partial, now)); }
};

template <typename F>
__global__ void __launch_bounds__(ATTN_THREADS)
decode(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* o, const __grid_constant__ attn_decode_args a, unsigned long long* stamp) {
	let_next_begin();
	extern __shared__ float4 shared[];
	constexpr uint32_t D = F::D, R = F::R;
	auto& s = *reinterpret_cast<typename F::Shared*>(shared);
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	const uint32_t tiles = head_tiles(a.q_heads, a.kv_heads), kv = blockIdx.y / tiles, r0 = blockIdx.x * R, rows = min(R, a.rows - r0);
	const HeadTile heads = head_tile(a.q_heads, a.kv_heads, kv, blockIdx.y % tiles);
	const size_t cache = size_t(kv) * a.ctx * (D * 2);
	prefetch_block<D>(k_cache + cache, v_cache + cache, min(a.ctx, LW_ATTN_BLOCK), warp, lane);
	wait_for_previous();
	const uint32_t pos = step[LW_STEP_POS];
	const uint32_t keys = heads.count ? uint32_t(keys_seen(pos, r0 + rows - 1, a.ctx)) : 0;
	const auto head_of = [&](uint32_t r) { return (size_t(r0 + r) * a.q_heads + heads.first) * D; };
	stage_queries<F>(s, [&](uint32_t r) { return q + head_of(r); }, [&](uint32_t r) { return r < rows ? heads.count : 0; }, a.scale, warp, lane);

	constexpr uint32_t ROWS_HEADS = F::GROUP_RESULTS;
	float4 result[F::GROUPS * ROWS_HEADS] = {};
	Running running[ROWS_HEADS];
	for (uint32_t first = 0; first < keys; first += LW_ATTN_BLOCK) {
		__syncthreads();
		const uint32_t most = min(keys - first, LW_ATTN_BLOCK);
		const auto seen = [&](uint32_t r) {
			const uint32_t n = uint32_t(keys_seen(pos, r0 + r, a.ctx));
			return first < n ? min(n - first, most) : 0;
		};
		const size_t at = cache + size_t(first) * (D * 2);
		attend_block<F>(s, k_cache + at, v_cache + at, most, seen, warp, lane, [&](uint32_t slot, uint32_t r, uint32_t i, uint32_t, float4 x) {
			Running& so_far = running[slot % ROWS_HEADS];
			float4& to = result[slot];
			if (slot < ROWS_HEADS) so_far.see(stat_of<F>(s, r, i));
			to = {so_far.add(to.x, x.x), so_far.add(to.y, x.y), so_far.add(to.z, x.z), so_far.add(to.w, x.w)};
		});
	}
	each_result<F>([&](uint32_t slot, uint32_t r, uint32_t i, uint32_t d) {
		if (i >= heads.count || r >= rows) return;
		const float sum = running[slot % ROWS_HEADS].sum, inverse = sum == 0.0f ? 0.0f : __fdiv_rn(1.0f, sum);
		const float4 x = result[slot];
		*reinterpret_cast<float4*>(o + head_of(r) + size_t(i) * D + d) = {__fmul_rn(x.x, inverse), __fmul_rn(x.y, inverse), __fmul_rn(x.z, inverse), __fmul_rn(x.w, inverse)};
	});
	stamp_end(stamp);
}

template <typename F> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const attn_decode_args*>(words);
	if (F::R != attend_rows(F::D, a.rows)) return false;
	*out = {{(a.rows + F::R - 1) / F::R, a.kv_heads * head_tiles(a.q_heads, a.kv_heads), 1}, ATTN_THREADS, sizeof(typename F::Shared)};
	return true;
}

#define LW_DECODE(D, R) RegisterOverride decode_h##D##_r##R("attn_decode__f16_h" #D, (const void*)decode<AttnForm<D, R>>, 5, sizeof(attn_decode_args), shape<AttnForm<D, R>>);
LW_ATTEND_FORMS(LW_DECODE)

}  // namespace
}  // namespace lw_cuda
