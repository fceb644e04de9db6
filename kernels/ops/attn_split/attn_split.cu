// For block b of LW_ATTN_BLOCK keys: stats[r,h,b] = (m, sum_j exp(s_j - m)) and partial[r,h,b] =
// sum_j exp(s_j - m) v[j], with s_j = scale * q[r,h] . k[j], m = max_j s_j and j the keys of the block up to
// pos + r. A block behind pos + r is left alone; a block that pos + r reaches but the cache does not gets the stats
// of no keys. A row's bits do not depend on the rows beside it (kernels/shared/cuda/attention.cuh), and so neither on which
// of two kernels does it: one row has one that keeps the memory busy, several rows one that keeps the matrix units busy.
// Loops stay loops, for instructions have to be fetched as well.
#include "kernels/shared/cuda/attention.cuh"
#include "kernels/shared/cuda/cluster.cuh"
#include "kernels/shared/cuda/copies.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

// ---- one row ----
// A thread block goes through every so manyth block of keys of one key head, for up to ATTN_HEADS query heads, in stages:
// SLICES times the keys of a slice, then as many times the values. They pass through a ring that is filled ahead, before the
// wait for the record before already. A warp does a chunk of dims of the scores, then the weights of a head, then as many
// dims of the values, so that what it sums up over slices stays in its registers. grid = (tile of heads, key head, first
// block).
constexpr uint32_t RING_BYTES = 64 << 10;
constexpr uint32_t WALKERS = 2;  // thread blocks of a multiprocessor: one computes while stages of the other one come

template <uint32_t D> struct Walk {
	static constexpr uint32_t THREADS = D, WARPS = D / WARP, ROW = D * 2;  // a thread a dim; bytes of a row of a cache
	static constexpr uint32_t STAGE = SLICE * ROW, COPIES = STAGE / THREADS / 16, FIT = RING_BYTES / STAGE, DEPTH = FIT < 3 ? 3 : FIT < SLICES ? FIT : SLICES;
	static_assert(CHUNK == WARP && THREADS * 16 / ROW == TILE, "a warp has a chunk, and what a thread copies the same place in each tile");

	struct Shared {
		uint8_t ring[DEPTH * STAGE];
		float score[2][WARPS][ATTN_HEADS][SLICE + 8];       // of chunks, of slices by turns
		uint16_t weight[SLICES][2][ATTN_HEADS][SLICE + 8];  // hi and lo
		float max[SLICES][ATTN_HEADS];
	};
};

// Vector c (16 bytes) of row i of a tile lies at c ^ swizzled(i), so that four lanes of two keys each, or of four pairs of
// values, find them in banks of their own.
__device__ __forceinline__ uint32_t swizzled(uint32_t i) { return (i & 1) << 2 ^ (i & 6); }

template <uint32_t D>
__global__ void __launch_bounds__(D, D < 512 ? WALKERS : 1)
split_row(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* partial, float* stats,
          const __grid_constant__ attn_split_args a, unsigned long long* stamp) {
	typedef Walk<D> F;
	extern __shared__ float4 shared[];
	auto& s = *reinterpret_cast<typename F::Shared*>(shared);
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	// Keys that the row sees and the record has blocks for, and these blocks.
	const uint32_t pos = position(step), keys = uint32_t(keys_seen(pos, 0, min(uint64_t(a.ctx), uint64_t(a.blocks) * LW_ATTN_BLOCK))), blocks = (keys - 1) / LW_ATTN_BLOCK + 1;
	const HeadTile heads = head_tile(a.q_heads, a.kv_heads, blockIdx.y, blockIdx.x);

	// What comes next into the ring: stage `asked` of a block with `left` keys from this slice on, of which this thread copies
	// vectors of the rows row, row + TILE, ...
	constexpr uint32_t BLOCK = LW_ATTN_BLOCK * F::ROW;
	const uint32_t ring = shared_address(s.ring), row = threadIdx.x / (F::ROW / 16), place = row * F::ROW + (threadIdx.x % (F::ROW / 16) ^ swizzled(row)) * 16;
	const uint8_t* from = k_cache + (size_t(blockIdx.y) * a.ctx + size_t(blockIdx.z) * LW_ATTN_BLOCK) * F::ROW + threadIdx.x * 16;
	int32_t left = int32_t(keys - blockIdx.z * LW_ATTN_BLOCK);
	uint32_t asked = 0, to = 0;
	bool more = heads.count > 0 && blockIdx.z < blocks;
	const auto ask = [&] {
		if (more) {
#pragma unroll
			for (uint32_t i = 0; i < F::COPIES; i++) copy16_or_zeros(ring + to + place + i * TILE * F::ROW, from + i * TILE * F::ROW, int32_t(row + i * TILE) < left);
			to = to + F::STAGE == sizeof s.ring ? 0 : to + F::STAGE;
			from += F::STAGE;
			left -= SLICE;
			if (++asked == SLICES) {
				from += v_cache - k_cache - BLOCK;
				left += LW_ATTN_BLOCK;
			} else if (asked == 2 * SLICES) {
				from += k_cache - v_cache - BLOCK + size_t(gridDim.z) * BLOCK;
				left += LW_ATTN_BLOCK - int32_t(gridDim.z * LW_ATTN_BLOCK);
				asked = 0;
				more = left > 0;
			}
		}
		end_copies();
	};
	// Rows from the position on are the record before's.
	const bool old = (blockIdx.z + 1) * LW_ATTN_BLOCK <= pos;
#pragma unroll 1
	for (uint32_t late = 0; late < 2; late++) {
		if (late) wait_for_previous();
		if (old != late)
#pragma unroll 1
			for (uint32_t i = 0; i + 1 < F::DEPTH; i++) ask();
	}

	// A lane has dims 8 t and up of the warp's chunk of head g.
	uint32_t q_hi[TILES], q_lo[TILES];
	float4 x[2] = {};
	if (g < heads.count)
#pragma unroll
		for (uint32_t i = 0; i < 2; i++) x[i] = __ldcg(reinterpret_cast<const float4*>(q + size_t(heads.first + g) * D + warp * CHUNK + 8 * t) + i);
	const float power = split_query<4>({x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w}, q_hi, q_lo);

	const uint32_t key_at = g * F::ROW + ((4 * warp + t) ^ swizzled(g)) * 16;
	// Of values, dims 4 g and up of the warp's: of keys 2 t and 2 t + 1.
	const uint32_t even_at = 2 * t * F::ROW + ((4 * warp + g / 2) ^ swizzled(2 * t)) * 16 + g % 2 * 8;
	const uint32_t odd_at = (2 * t + 1) * F::ROW + ((4 * warp + g / 2) ^ swizzled(2 * t + 1)) * 16 + g % 2 * 8;
	uint32_t at = 0;
#pragma unroll 1
	for (uint32_t b = blockIdx.z; b < blocks && heads.count; b += gridDim.z) {
		const int32_t all = int32_t(keys - b * LW_ATTN_BLOCK);
		// The weights of slice w, 0 behind the last key. Of slice -1 there is nothing to read, and what comes of it is overwritten.
		const auto weigh = [&](uint32_t w) {
#pragma unroll
			for (uint32_t k = 0; k < ATTN_HEADS; k += F::WARPS) {
				const uint32_t i = k + warp;
				if (F::WARPS > ATTN_HEADS && i >= ATTN_HEADS) break;
				float score = 0.0f;
#pragma unroll
				for (uint32_t c = 0; c < F::WARPS; c++) score = __fadd_rn(score, s.score[w % 2][c][i][lane]);
				const KeyWeight weight = weight_of(__fmul_rn(score, a.scale), int32_t(w * SLICE + lane) < all);
				s.weight[w % SLICES][0][i][lane] = weight.hi;
				s.weight[w % SLICES][1][i][lane] = weight.lo;
				if (lane == 0) s.max[w % SLICES][i] = weight.max;
			}
		};
		float2 sum[4] = {};
		float total = 0.0f, top, counts[2];
#pragma unroll 1
		for (uint32_t n = 0; n < 2 * SLICES; n++) {
			// The stage that comes, after all of the one before it has been read.
			wait_for_copies<F::DEPTH - 2>();
			__syncthreads();
			ask();
			const uint8_t* stage = s.ring + at;
			at = at + F::STAGE == sizeof s.ring ? 0 : at + F::STAGE;
			if (n < SLICES) {
				uint4 key[TILES];
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) key[f] = *reinterpret_cast<const uint4*>(stage + key_at + f * TILE * F::ROW);
				float2 score[TILES];
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) score[f] = chunk_score(q_hi, q_lo, key[f], power);
				weigh(n - 1);
#pragma unroll
				for (uint32_t f = 0; f < TILES; f++) *reinterpret_cast<float2*>(&s.score[n % 2][warp][g][f * TILE + 2 * t]) = score[f];
				continue;
			}
			if (n == SLICES) {
				weigh(SLICES - 1);
				__syncthreads();
				const float low = s.max[t][g], high = s.max[t + 4][g];
				top = fmaxf(low, high);
				top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
				top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
				counts[0] = expf(__fsub_rn(low, top));
				counts[1] = expf(__fsub_rn(high, top));
			}
			const uint32_t w = n - SLICES;
			uint2 value[2 * TILES];
#pragma unroll
			for (uint32_t i = 0; i < 2 * TILES; i++) value[i] = *reinterpret_cast<const uint2*>(stage + (i % 2 ? odd_at : even_at) + i / 2 * TILE * F::ROW);
			uint32_t hi[TILES], lo[TILES];
#pragma unroll
			for (uint32_t f = 0; f < TILES; f++) {
				hi[f] = *reinterpret_cast<const uint32_t*>(&s.weight[w][0][g][f * TILE + 2 * t]);
				lo[f] = *reinterpret_cast<const uint32_t*>(&s.weight[w][1][g][f * TILE + 2 * t]);
			}
			const float factor = __shfl_sync(~0u, w < TILES ? counts[0] : counts[1], lane - t + w % TILES);
#pragma unroll
			for (uint32_t f = 0; f < 4; f++) {
				const float2 y = slice_product(hi, lo, value_pairs(value, f).of);
				sum[f] = {__fmaf_rn(y.x, factor, sum[f].x), __fmaf_rn(y.y, factor, sum[f].y)};
			}
			if (warp == 0) total = __fmaf_rn(slice_sum(hi, lo), factor, total);
		}
		if (g < heads.count) {
			const size_t block = size_t(heads.first + g) * a.blocks + b;
			float4* out = reinterpret_cast<float4*>(partial + block * D + warp * CHUNK + 8 * t);
			out[0] = {sum[0].x, sum[1].x, sum[2].x, sum[3].x};
			out[1] = {sum[0].y, sum[1].y, sum[2].y, sum[3].y};
			if (warp == 0 && t == 0) *reinterpret_cast<float2*>(stats + block * 2) = {top, total};
		}
	}
	// Blocks that the row reaches and the cache does not.
	for (uint64_t b = blockIdx.z; b < a.blocks && b * LW_ATTN_BLOCK <= pos; b += gridDim.z)
		if (b >= blocks && threadIdx.x < heads.count) *reinterpret_cast<float2*>(stats + ((heads.first + threadIdx.x) * size_t(a.blocks) + b) * 2) = {ATTN_LOWEST, 0.0f};
	stamp_end(stamp);
}

template <uint32_t D> bool row_shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const attn_split_args*>(words);
	// Without clusters attn_decode is the translated kernel, and so this has to be, for the same bits.
	if (a.rows != 1 || !has_clusters((const void*)split_row<D>)) return false;
	const uint32_t tiles = head_tiles(a.q_heads, a.kv_heads), heads = a.kv_heads * tiles, fit = (D < 512 ? WALKERS : 1) * chip.multiprocessors / heads;
	const uint32_t walkers = fit < 1 ? 1 : fit < a.blocks ? fit : a.blocks, bytes = sizeof(typename Walk<D>::Shared);
	*out = {{tiles, a.kv_heads, walkers}, Walk<D>::THREADS, heads * walkers <= chip.multiprocessors && bytes < EXCLUSIVE_BYTES ? EXCLUSIVE_BYTES : bytes};
	return true;
}

// ---- several rows ----
// A thread block does one block of keys for up to R rows, which share every load of keys and values, and ATTN_HEADS query
// heads of one key head: grid = (rows / R, blocks, kv * head_tiles + tile). Which dim a lane's fragment holds is free as long
// as both factors agree: lanes load 16 bytes at a time as they lie in the caches. Each row has instructions of its own.
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
// record before, stages the queries, lets the threads meet and says whether there are values that are no numbers and that not
// all rows see. put(r, i, d, x): four dims from d on of head i's
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
	const bool apart = begin();
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
		// Of one row, or of all R.
		const auto multiply_rows = [&](uint32_t only) {
#pragma unroll
			for (uint32_t r = 0; r < R; r++) {
				if (only != R && r != only) continue;
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
		};
		if (!apart) multiply_rows(R);
		// The last row first: what one row does not see no row before it sees.
		for (uint32_t r = R; apart && r-- > 0;) {
			const uint32_t n = seen(r);
#pragma unroll
			for (uint32_t i = 0; i < TILES; i++) {
				const uint32_t at = first + i * TILE + 2 * t, there = (at < n ? 0xffff : 0) | (at + 1 < n ? 0xffff0000 : 0);
#pragma unroll
				for (uint32_t f = 0; f < 8; f++) b[f][i] &= there;
			}
			multiply_rows(r);
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

// Whether this thread finds what is no number among values `from` up to `to`, which the last rows alone see: fewer than there are rows.
template <uint32_t D> __device__ __forceinline__ bool is_strange(const uint8_t* v, uint32_t from, uint32_t to) {
	constexpr uint32_t VECTORS = D * 2 / 16;
	const uint32_t key = from + threadIdx.x / VECTORS;
	if (key >= to) return false;
	const uint4 x = __ldcg(reinterpret_cast<const uint4*>(v + key * (D * 2)) + threadIdx.x % VECTORS);
	const auto strange = [](uint32_t pair) { return (pair & 0x7c00) == 0x7c00 || (pair & 0x7c000000) == 0x7c000000; };
	return strange(x.x) || strange(x.y) || strange(x.z) || strange(x.w);
}

template <typename F>
__global__ void __launch_bounds__(THREADS, 1)
split_rows(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* partial, float* stats,
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
		const auto seen = [&](uint32_t r) {
			const uint64_t n = keys_seen(pos, r0 + r, a.ctx);
			return first < n ? uint32_t(min(n - first, uint64_t(most))) : 0;
		};
		const auto begin = [&] {
			wait_for_previous();
			const bool strange = is_strange<D>(v_cache + at, seen(0), most);
			stage_queries<F>(s, [&](uint32_t r) { return q + (size_t(r0 + r) * a.q_heads + heads.first) * D; }, [&](uint32_t r) { return r < rows ? heads.count : 0; }, warp, lane);
			return bool(__syncthreads_or(strange));
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

template <typename F> bool rows_shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const attn_split_args*>(words);
	if (a.rows < 2 || F::R != (a.rows == 2 || F::D > 256 ? 2 : 4) || !has_clusters((const void*)split_rows<F>)) return false;
	*out = {{(a.rows + F::R - 1) / F::R, a.blocks, a.kv_heads * head_tiles(a.q_heads, a.kv_heads)}, THREADS, sizeof(typename F::Shared)};
	return true;
}

constexpr Appended CACHES = {1u << attn_split_slot::k_cache | 1u << attn_split_slot::v_cache, attn_split_slot::step};
#define LW_ROW(D) RegisterOverride split_h##D##_row("attn_split__f16_h" #D, (const void*)split_row<D>, 6, sizeof(attn_split_args), row_shape<D>, 1u << attn_split_slot::step, CACHES);
#define LW_ROWS(D, R) RegisterOverride split_h##D##_r##R("attn_split__f16_h" #D, (const void*)split_rows<Form<D, R>>, 6, sizeof(attn_split_args), rows_shape<Form<D, R>>, 1u << attn_split_slot::step);
LW_ROW(64) LW_ROW(128) LW_ROW(256) LW_ROW(512)
LW_ROWS(64, 2) LW_ROWS(64, 4) LW_ROWS(128, 2) LW_ROWS(128, 4) LW_ROWS(256, 2) LW_ROWS(256, 4) LW_ROWS(512, 2)

}  // namespace
}  // namespace lw_cuda
