// For block b of LW_ATTN_BLOCK keys: stats[r,h,b] = (m, sum_j exp(s_j - m)) and partial[r,h,b] =
// sum_j exp(s_j - m) v[j], with s_j = scale * q[r,h] . k[j], m = max_j s_j and j the keys of the block up to
// pos + r. A block behind pos + r is left alone; a block that pos + r reaches but the cache does not gets the stats
// of no keys. A thread block does one block of keys for up to R rows, which share every load of keys and values, and
// ATTN_HEADS query heads of one key head, on matrix units (kernels/shared/cuda/attention.cuh): grid = (rows / R, blocks,
// kv * head_tiles + tile). Each row has its own instructions in an order of its own: its bits do not depend on the rows
// beside it.
//
// Which dim a lane's fragment holds is free as long as both factors agree: lanes load 16 bytes at a time as they lie in the
// caches. Loops stay loops, for instructions have to be fetched as well. What a row does not see has the weight 0.
#include "kernels/shared/cuda/attention.cuh"
#include "kernels/shared/cuda/cluster.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t WARPS = SLICES, THREADS = WARPS * WARP;
constexpr uint32_t GROUP = 64;  // dims of values that eight lanes load at a time

// A thread block for heads of D dims and up to R rows.
template <uint32_t D_, uint32_t R_> struct Form {
	static constexpr uint32_t D = D_, R = R_, CHUNKS = D / CHUNK, GROUPS = D / GROUP;
	// Of the results of a group of dims, each thread has four dims of this many rows and heads.
	static constexpr uint32_t VECTORS = R * ATTN_HEADS * GROUP / 4, RESULTS = (VECTORS + THREADS - 1) / THREADS;

	struct Shared {
		// hi and lo; between heads a half of the banks.
		half query[R][2][ATTN_HEADS][D + 32];
		float power[R][CHUNKS][ATTN_HEADS];
		float max[R][ATTN_HEADS][SLICES], sum[R][ATTN_HEADS][SLICES];
		float top[R][ATTN_HEADS], factor[R][ATTN_HEADS][SLICES];  // the greatest maximum, and what a slice counts
		// Of groups of dims by turns: four dims stand side by side, those of lane t of a fragment at t, t + 4, ...
		float4 value[2][R][WARPS][ATTN_HEADS][GROUP / 4 + 4];
	};
};

// Queries of all rows, of which `count(r)` heads from q(r) on are there; a warp a head.
template <typename F, typename COUNT, typename Q>
__device__ __forceinline__ void stage_queries(typename F::Shared& s, Q q, COUNT count, uint32_t warp, uint32_t lane) {
	constexpr uint32_t N = (F::D + 4 * WARP - 1) / (4 * WARP);
	for (uint32_t at = warp; at < F::R * ATTN_HEADS; at += WARPS) {
		const uint32_t r = at / ATTN_HEADS, i = at % ATTN_HEADS;
		float4 x[N];
#pragma unroll
		for (uint32_t n = 0; n < N; n++) {
			const uint32_t d = 4 * (lane + n * WARP);
			x[n] = i < count(r) && d < F::D ? *reinterpret_cast<const float4*>(q(r) + i * F::D + d) : float4{};
		}
#pragma unroll
		for (uint32_t n = 0; n < N; n++) {
			const uint32_t d = 4 * (lane + n * WARP);
			uint32_t hi[2], lo[2];
			const float power = split_query<CHUNK / 4>({x[n].x, x[n].y, x[n].z, x[n].w}, hi, lo);
			if (d >= F::D) continue;
			*reinterpret_cast<uint2*>(&s.query[r][0][i][d]) = {hi[0], hi[1]};
			*reinterpret_cast<uint2*>(&s.query[r][1][i][d]) = {lo[0], lo[1]};
			if (d % CHUNK == 0) s.power[r][d / CHUNK][i] = power;
		}
	}
}

// What each slice counts in the block, for all heads of a row: eight lanes have a head's.
template <typename F> __device__ __forceinline__ void weigh_slices(typename F::Shared& s, uint32_t r, uint32_t i, uint32_t w) {
	const float mine = s.max[r][i][w];
	float max = mine;
#pragma unroll
	for (uint32_t d = 1; d < SLICES; d *= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, d));
	s.factor[r][i][w] = expf(__fsub_rn(mine, max));
	s.top[r][i] = max;
}

// One block of keys, whose rows start at k and v: `most` of them, of which row r sees seen(r). begin() waits for the
// record before, stages the queries and lets the threads meet. put(r, i, d, x): four dims from d on of head i's
// sum_j exp(s_ij - max_i) v_j, for each result of this thread. Slices are weighed then.
template <typename F, typename SEEN, typename BEGIN, typename PUT>
__device__ __forceinline__ void attend_block(typename F::Shared& s, const uint8_t* k, const uint8_t* v, uint32_t most, float scale, SEEN seen, uint32_t warp, uint32_t lane, BEGIN begin, PUT put) {
	constexpr uint32_t D = F::D, R = F::R, HELD = 4, AHEAD = 2, TURNS = F::CHUNKS < HELD ? F::CHUNKS : HELD;
	const uint32_t g = lane / 4, t = lane % 4, first = warp * SLICE;
	// Keys behind the last one are the last one again.
	const auto row_of = [&](uint32_t key) { return min(first + key, most - 1) * (D * 2); };
	k += 16 * t;
	v += 16 * g;
	uint32_t row[TILES];
#pragma unroll
	for (uint32_t f = 0; f < TILES; f++) row[f] = row_of(f * TILE + g);
	begin();
	uint4 key[HELD][TILES];
#pragma unroll
	for (uint32_t c = 0; c < AHEAD && c < F::CHUNKS; c++)
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) key[c][f] = __ldcs(reinterpret_cast<const uint4*>(k + row[f] + c * (CHUNK * 2)));

	float2 score[R][TILES] = {};
#pragma unroll 1
	for (uint32_t from = 0; from < F::CHUNKS; from += TURNS) {
#pragma unroll
		for (uint32_t turn = 0; turn < TURNS; turn++) {
			const uint32_t c = from + turn;
			if (c + AHEAD < F::CHUNKS)
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) key[(turn + AHEAD) % HELD][f] = __ldcs(reinterpret_cast<const uint4*>(k + row[f] + (c + AHEAD) * (CHUNK * 2)));
#pragma unroll
			for (uint32_t r = 0; r < R; r++) {
				const uint4 hi = *reinterpret_cast<const uint4*>(&s.query[r][0][g][c * CHUNK + 8 * t]);
				const uint4 lo = *reinterpret_cast<const uint4*>(&s.query[r][1][g][c * CHUNK + 8 * t]);
				const float power = s.power[r][c][g];
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) {
					const float2 of_chunk = chunk_score({hi.x, hi.y, hi.z, hi.w}, {lo.x, lo.y, lo.z, lo.w}, key[turn][f], power);
					score[r][f] = {__fadd_rn(score[r][f].x, of_chunk.x), __fadd_rn(score[r][f].y, of_chunk.y)};
				}
			}
		}
	}

	uint4 x[2 * TILES];
	const auto load = [&](uint32_t group) {
#pragma unroll
		for (uint32_t i = 0; i < 2 * TILES; i++) x[i] = __ldcs(reinterpret_cast<const uint4*>(v + row_of(value_key(i, t)) + group * (GROUP * 2)));
	};
	load(0);

	uint32_t hi[R][TILES], lo[R][TILES];
#pragma unroll
	for (uint32_t r = 0; r < R; r++) {
		const uint32_t n = seen(r);
		float max = ATTN_LOWEST;
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) {
			const uint32_t at = first + f * TILE + 2 * t;
			score[r][f] = {at < n ? __fmul_rn(score[r][f].x, scale) : -INFINITY, at + 1 < n ? __fmul_rn(score[r][f].y, scale) : -INFINITY};
			max = fmaxf(max, fmaxf(score[r][f].x, score[r][f].y));
		}
		max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
		max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) split(expf(__fsub_rn(score[r][f].x, max)), expf(__fsub_rn(score[r][f].y, max)), hi[r][f], lo[r][f]);
		const float sum = slice_sum(hi[r], lo[r]);
		if (t == 0) s.max[r][g][warp] = max, s.sum[r][g][warp] = sum;
	}
	__syncthreads();
	if (threadIdx.x < ATTN_HEADS * SLICES)
		for (uint32_t r = 0; r < R; r++) weigh_slices<F>(s, r, threadIdx.x / SLICES, threadIdx.x % SLICES);

#pragma unroll 1
	for (uint32_t group = 0; group < F::GROUPS; group++) {
		uint32_t b[8][TILES];
#pragma unroll
		for (uint32_t f = 0; f < 8; f++)
#pragma unroll
			for (uint32_t i = 0; i < TILES; i++) {
				const uint4 &low = x[2 * i], &high = x[2 * i + 1];
				b[f][i] = f < 2 ? value_pair(low.x, high.x, f) : f < 4 ? value_pair(low.y, high.y, f) : f < 6 ? value_pair(low.z, high.z, f) : value_pair(low.w, high.w, f);
			}
		if (group + 1 < F::GROUPS) load(group + 1);
		auto& value = s.value[group % 2];
#pragma unroll
		for (uint32_t r = 0; r < R; r++) {
			float2 o[8];
#pragma unroll
			for (uint32_t f = 0; f < 8; f++) o[f] = slice_product(hi[r], lo[r], b[f]);
			// Fragment f has dims 8 g + f, a lane columns 2 t and 2 t + 1: 16 dims side by side.
			float4* to = value[r][warp][g] + t;
			to[0] = {o[0].x, o[1].x, o[2].x, o[3].x};
			to[4] = {o[4].x, o[5].x, o[6].x, o[7].x};
			to[8] = {o[0].y, o[1].y, o[2].y, o[3].y};
			to[12] = {o[4].y, o[5].y, o[6].y, o[7].y};
		}
		__syncthreads();
#pragma unroll
		for (uint32_t e = 0; e < F::RESULTS; e++) {
			const uint32_t at = e * THREADS + threadIdx.x, r = at / (ATTN_HEADS * GROUP / 4), i = at / (GROUP / 4) % ATTN_HEADS, slot = at % (GROUP / 4);
			if (F::VECTORS % THREADS && at >= F::VECTORS) break;
			float4 sum = {};
#pragma unroll
			for (uint32_t w = 0; w < WARPS; w++) {
				const float4 y = value[r][w][i][slot];
				const float f = s.factor[r][i][w];
				sum = {__fmaf_rn(y.x, f, sum.x), __fmaf_rn(y.y, f, sum.y), __fmaf_rn(y.z, f, sum.z), __fmaf_rn(y.w, f, sum.w)};
			}
			put(r, i, group * GROUP + slot % 4 * 16 + slot / 4 * 4, sum);
		}
	}
}

template <typename F>
__global__ void __launch_bounds__(THREADS, F::R == 1 ? 2 : 1)
split_block(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* partial, float* stats,
            const __grid_constant__ attn_split_args a, unsigned long long* stamp) {
	extern __shared__ float4 shared[];
	constexpr uint32_t D = F::D, R = F::R;
	auto& s = *reinterpret_cast<typename F::Shared*>(shared);
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	const uint32_t tiles = head_tiles(a.q_heads, a.kv_heads), kv = blockIdx.z / tiles, b = blockIdx.y, r0 = blockIdx.x * R, rows = min(R, a.rows - r0);
	const HeadTile heads = head_tile(a.q_heads, a.kv_heads, kv, blockIdx.z % tiles);
	const uint64_t first = uint64_t(b) * LW_ATTN_BLOCK;
	const size_t at = (size_t(kv) * a.ctx + first) * (D * 2);
	if (first < a.ctx) {
		// What a warp reads first.
		const size_t row = at + size_t(min(uint64_t(threadIdx.x), a.ctx - first - 1)) * (D * 2);
		prefetch_line(k_cache + row);
		prefetch_line(v_cache + row);
	}
	const uint32_t pos = position(step);
	// Of the last row.
	const uint64_t keys = keys_seen(pos, r0 + rows - 1, a.ctx);
	// Of head i of row r, at i * a.blocks.
	const auto block_of = [&](uint32_t r) { return (size_t(r0 + r) * a.q_heads + heads.first) * a.blocks + b; };
	const auto reaches = [&](uint32_t r) { return r < rows && first <= uint64_t(pos) + r0 + r; };
	if (first < keys && heads.count) {
		const uint32_t most = uint32_t(min(keys - first, uint64_t(LW_ATTN_BLOCK)));
		const auto begin = [&] {
			wait_for_previous();
			stage_queries<F>(s, [&](uint32_t r) { return q + (size_t(r0 + r) * a.q_heads + heads.first) * D; }, [&](uint32_t r) { return r < rows ? heads.count : 0; }, warp, lane);
			__syncthreads();
		};
		const auto seen = [&](uint32_t r) {
			const uint64_t n = keys_seen(pos, r0 + r, a.ctx);
			return first < n ? uint32_t(min(n - first, uint64_t(most))) : 0;
		};
		attend_block<F>(s, k_cache + at, v_cache + at, most, a.scale, seen, warp, lane, begin, [&](uint32_t r, uint32_t i, uint32_t d, float4 x) {
			if (i < heads.count && reaches(r)) *reinterpret_cast<float4*>(partial + (block_of(r) + size_t(i) * a.blocks) * D + d) = x;
		});
	} else wait_for_previous();
	const uint32_t r = threadIdx.x / ATTN_HEADS, i = threadIdx.x % ATTN_HEADS;
	if (i < heads.count && reaches(r)) {
		float2 stat = {ATTN_LOWEST, 0.0f};
		if (first < keys) {
			stat.x = s.top[r][i];
#pragma unroll 1
			for (uint32_t w = 0; w < SLICES; w++) stat.y = __fmaf_rn(s.sum[r][i][w], s.factor[r][i][w], stat.y);
		}
		*reinterpret_cast<float2*>(stats + (block_of(r) + size_t(i) * a.blocks) * 2) = stat;
	}
	stamp_end(stamp);
}

template <typename F> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const attn_split_args*>(words);
	// Without clusters attn_decode is the translated kernel, and so this has to be, for the same bits.
	if (F::R != (a.rows <= 2 ? a.rows : F::D > 256 ? 2 : 4) || !has_clusters((const void*)split_block<F>)) return false;
	*out = {{(a.rows + F::R - 1) / F::R, a.blocks, a.kv_heads * head_tiles(a.q_heads, a.kv_heads)}, THREADS, sizeof(typename F::Shared)};
	return true;
}

#define LW_SPLIT(D, R) RegisterOverride split_h##D##_r##R("attn_split__f16_h" #D, (const void*)split_block<Form<D, R>>, 6, sizeof(attn_split_args), shape<Form<D, R>>, 1u << attn_split_slot::step);
LW_SPLIT(64, 1) LW_SPLIT(64, 2) LW_SPLIT(64, 4) LW_SPLIT(128, 1) LW_SPLIT(128, 2) LW_SPLIT(128, 4)
LW_SPLIT(256, 1) LW_SPLIT(256, 2) LW_SPLIT(256, 4) LW_SPLIT(512, 1) LW_SPLIT(512, 2)

}  // namespace
}  // namespace lw_cuda
