// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head, for any number of rows,
// on warpgroup products. A block does QUERIES consecutive pairs (row, head) of one key head, rows ascending, a warpgroup
// half of them, and walks the keys in tiles of KEYS: blockIdx = (tile of pairs, the last one first, for it is the longest;
// key head). Caches are f16; what else there is the translated kernel serves.
//
// Keys and values are exact in f16. A query is scaled by a power of two and split in two f16, hi + lo, and so are the
// weights exp(score - max): 22 bits of each. Matrix units cut off what does not fit a sum, so no sum stays there for more
// than 64 dims of a score or 64 keys of a value: it goes on in f32 arithmetic.
// A query's bits depend on its own keys alone, for tiles lie at absolute positions and weights behind pos + r are zeros.
//
// Tiles of keys and of values have one place each: values come while scores are multiplied, keys while values are.
// Everything in shared memory lies in pieces of 64 rows by 64 dims, swizzled.
#include <cuda_fp16.h>

#include "kernels/shared/cuda/copies.cuh"
#include "kernels/shared/cuda/wgmma.cuh"
#include "native/gen/abi.h"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t THREADS = 256;
constexpr uint32_t TILE = 64;  // queries of a warpgroup, keys of a tile, dims of a piece
constexpr uint32_t QUERIES = TILE * THREADS / 128;
constexpr uint32_t PIECE = TILE * SWIZZLE_ROW;
constexpr float LOWEST = -3.402823466e+38f;
constexpr float WEIGHT_UNIT = 16384;  // weights enter products as multiples of its inverse: their lo parts stay normal

template <int D> struct Shared {
	alignas(SWIZZLE_ALIGNMENT) uint8_t q[QUERIES / TILE][2][D / TILE][PIECE];  // warpgroup; hi, lo
	alignas(SWIZZLE_ALIGNMENT) uint8_t k[D / TILE][PIECE], v[D / TILE][PIECE];
	float unit[QUERIES];  // of a query's values
};

struct Heads {
	uint32_t first, count;
};
// Query heads that read key head kv; all of them in range whatever the two counts.
__device__ __forceinline__ Heads heads_of(uint32_t q_heads, uint32_t kv_heads, uint32_t kv) {
	const uint32_t each = (q_heads + kv_heads - 1) / kv_heads, first = min(each * kv, q_heads);
	return {first, min(each, q_heads - first)};
}
__device__ __forceinline__ uint32_t keys_seen(uint32_t pos, uint32_t r, uint32_t ctx) { return uint32_t(min(uint64_t(pos) + r + 1, uint64_t(ctx))); }

__device__ __forceinline__ uint32_t bits_of(__half2 h) { return *reinterpret_cast<uint32_t*>(&h); }
// x = hi + lo
__device__ __forceinline__ void split(float x, float y, uint32_t& hi, uint32_t& lo) {
	const __half2 h = __floats2half2_rn(x, y);
	const float2 back = __half22float2(h);
	hi = bits_of(h);
	lo = bits_of(__floats2half2_rn(x - back.x, y - back.y));
}

// Rows first .. first + TILE - 1 of a cache, zeros from row `keys` on.
template <int D> __device__ __forceinline__ void fetch(uint8_t (*to)[PIECE], const __half* cache, uint32_t first, uint32_t keys) {
#pragma unroll
	for (uint32_t i = 0; i < TILE * D / 8 / THREADS; i++) {
		const uint32_t at = i * THREADS + threadIdx.x, row = at / (D / 8), part = at % (D / 8);
		const bool there = first + row < keys;
		const __half* from = cache + (there ? size_t(first + row) * D + part * 8 : 0);
		copy16_or_zeros(shared_address(to[part / 8]) + swizzled(row, part % 8), from, there);
	}
	end_copies();
}
__device__ __forceinline__ void fetched() {
	wait_for_copies<0>();
	show_to_matrix_units();
	__syncthreads();
}

// `pieces` products of 64 deep, each on its own in one of two places: issue(p, place) begins it, take(p, place) adds it up
// while the next one is under way.
template <int PIECES, class ISSUE, class TAKE> __device__ __forceinline__ void by_pieces(float (&d)[2][32], ISSUE&& issue, TAKE&& take) {
	begin_products();
	issue(0, d[0]);
	end_batch();
#pragma unroll
	for (int p = 0; p < PIECES; p++) {
		if (p + 1 < PIECES) {
			begin_products();
			issue(p + 1, d[(p + 1) % 2]);
			end_batch();
			wait_for_batches<1>();
		} else {
			wait_for_batches<0>();
		}
		settle(d[p % 2]);
		take(p, d[p % 2]);
	}
}

template <int D>
__global__ void __launch_bounds__(THREADS, 1) attn_prefill(const float* q, const __half* k_cache, const __half* v_cache, const uint32_t* step, float* o,
                                                           const __grid_constant__ attn_prefill_args a, unsigned long long* stamp) {
	constexpr int PIECES = D / TILE;
	extern __shared__ uint8_t memory[];
	Shared<D>& m = *reinterpret_cast<Shared<D>*>((reinterpret_cast<uintptr_t>(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT);
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, kv = blockIdx.y;
	const Heads heads = heads_of(a.q_heads, a.kv_heads, kv);
	const uint32_t pairs = a.rows * heads.count, tiles = (pairs + QUERIES - 1) / QUERIES;
	wait_for_previous();
	if (blockIdx.x < tiles) {
		const uint32_t base = (tiles - 1 - blockIdx.x) * QUERIES, pos = step[LW_STEP_POS];
		const uint32_t keys = keys_seen(pos, (min(base + QUERIES, pairs) - 1) / heads.count, a.ctx);
		const uint32_t all_see = keys_seen(pos, base / heads.count, a.ctx);
		const __half* k = k_cache + size_t(kv) * a.ctx * D;
		const __half* v = v_cache + size_t(kv) * a.ctx * D;
		fetch<D>(m.k, k, 0, keys);

		// Queries: D / 8 lanes do one.
		constexpr uint32_t SHARERS = D / 8;
#pragma unroll 2
		for (uint32_t i = 0; i < QUERIES / (THREADS / SHARERS); i++) {
			const uint32_t row = i * (THREADS / SHARERS) + threadIdx.x / SHARERS, part = threadIdx.x % SHARERS, pair = base + row;
			float x[8] = {};
			if (pair < pairs) {
				const float4* from = reinterpret_cast<const float4*>(q + (size_t(pair / heads.count) * a.q_heads + heads.first + pair % heads.count) * D + part * 8);
				const float4 low = from[0], high = from[1];
				x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w, x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
			}
			float top = 0;
#pragma unroll
			for (int c = 0; c < 8; c++) {
				x[c] *= a.scale;
				top = fmaxf(top, fabsf(x[c]));
			}
#pragma unroll
			for (uint32_t w = 1; w < SHARERS; w *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, w));
			// The greatest value comes to lie between 2^14 and 2^15.
			const uint32_t exponent = max(__float_as_uint(top) >> 23, 15u);
			const float up = __uint_as_float((268 - exponent) << 23);
			uint32_t hi[4], lo[4];
#pragma unroll
			for (int c = 0; c < 4; c++) split(x[2 * c] * up, x[2 * c + 1] * up, hi[c], lo[c]);
			const uint32_t at = swizzled(row % TILE, part % 8);
			*reinterpret_cast<uint4*>(m.q[row / TILE][0][part / 8] + at) = {hi[0], hi[1], hi[2], hi[3]};
			*reinterpret_cast<uint4*>(m.q[row / TILE][1][part / 8] + at) = {lo[0], lo[1], lo[2], lo[3]};
			if (part == 0) m.unit[row] = __uint_as_float((exponent - 14) << 23);
		}
		__syncthreads();

		// This thread's queries: rows `mine` and mine + 8.
		const uint32_t mine = warp / 4 * TILE + warp % 4 * 16 + lane / 4;
		float unit[2], top[2] = {LOWEST, LOWEST}, sum[2] = {0, 0};
		uint32_t limit[2];
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const uint32_t pair = base + mine + 8 * i;
			unit[i] = m.unit[mine + 8 * i];
			limit[i] = pair < pairs ? keys_seen(pos, pair / heads.count, a.ctx) : 0;
		}
		const uint64_t q_hi = columns_at(shared_address(m.q[warp / 4][0])), q_lo = columns_at(shared_address(m.q[warp / 4][1]));
		const uint64_t k_at = columns_at(shared_address(m.k)), v_at = columns_at(shared_address(m.v));
		float values[PIECES][32] = {};

		for (uint32_t first = 0; first < keys; first += TILE) {
			fetched();  // and the values before have been read
			fetch<D>(m.v, v, first, keys);
			float d[2][32], score[32] = {};
			by_pieces<PIECES>(
				d,
				[&](int p, float(&to)[32]) {
#pragma unroll
					for (int s = 0; s < 4; s++) {
						const uint64_t at = uint64_t(p) * (PIECE >> 4) + s * DEPTH_STEP;
						multiply(to, q_hi + at, k_at + at, s > 0);
						multiply(to, q_lo + at, k_at + at, true);
					}
				},
				[&](int, const float(&from)[32]) {
#pragma unroll
					for (int i = 0; i < 32; i++) score[i] += from[i];
				});

			// Scores become weights: element i belongs to query i / 2 % 2 and to key i / 4 * 8 + lane % 4 * 2 + i % 2.
			float factor[2], best[2] = {top[0], top[1]};
			const bool masked = first + TILE > all_see || base + QUERIES > pairs;
#pragma unroll
			for (int i = 0; i < 32; i++) {
				score[i] *= unit[i / 2 % 2];
				if (!masked || first + i / 4 * 8 + lane % 4 * 2 + i % 2 < limit[i / 2 % 2]) best[i / 2 % 2] = fmaxf(best[i / 2 % 2], score[i]);
			}
#pragma unroll
			for (int i = 0; i < 2; i++) {
				best[i] = fmaxf(best[i], __shfl_xor_sync(~0u, best[i], 1));
				best[i] = fmaxf(best[i], __shfl_xor_sync(~0u, best[i], 2));
				factor[i] = expf(top[i] - best[i]);
				top[i] = best[i];
				sum[i] *= factor[i];
			}
			float added[2] = {0, 0};
			uint32_t hi[4][4], lo[4][4];
#pragma unroll
			for (int i = 0; i < 32; i += 2) {
				float w[2];
#pragma unroll
				for (int c = 0; c < 2; c++) {
					w[c] = expf(score[i + c] - top[i / 2 % 2]);
					if (masked && first + i / 4 * 8 + lane % 4 * 2 + c >= limit[i / 2 % 2]) w[c] = 0;
					added[i / 2 % 2] += w[c];
				}
				split(w[0] * WEIGHT_UNIT, w[1] * WEIGHT_UNIT, hi[i / 8][i / 2 % 4], lo[i / 8][i / 2 % 4]);
			}
#pragma unroll
			for (int i = 0; i < 2; i++) sum[i] += added[i];

			fetched();  // and the keys have been read
			fetch<D>(m.k, k, first + TILE, keys);
			by_pieces<PIECES>(
				d,
				[&](int p, float(&to)[32]) {
#pragma unroll
					for (int s = 0; s < 4; s++) {
						const uint64_t at = v_at + uint64_t(p) * (PIECE >> 4) + s * ROW_STEP;
						multiply_transposed(to, hi[s], at, s > 0);
						multiply_transposed(to, lo[s], at, true);
					}
				},
				[&](int p, const float(&from)[32]) {
#pragma unroll
					for (int i = 0; i < 32; i++) values[p][i] = fmaf(values[p][i], factor[i / 2 % 2], from[i]);
				});
		}

#pragma unroll
		for (int i = 0; i < 2; i++) {
			sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
			sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
			const float inverse = sum[i] == 0 ? 0 : 1 / (sum[i] * WEIGHT_UNIT);
			const uint32_t pair = base + mine + 8 * i;
			if (pair >= pairs) continue;
			float* to = o + (size_t(pair / heads.count) * a.q_heads + heads.first + pair % heads.count) * D + lane % 4 * 2;
#pragma unroll
			for (int p = 0; p < PIECES; p++)
#pragma unroll
				for (int j = 0; j < 8; j++)
					*reinterpret_cast<float2*>(to + p * TILE + j * 8) = {values[p][4 * j + 2 * i] * inverse, values[p][4 * j + 2 * i + 1] * inverse};
		}
	}
	stamp_end(stamp);
}

template <int D> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const attn_prefill_args*>(words);
	const uint32_t each = a.kv_heads ? (a.q_heads + a.kv_heads - 1) / a.kv_heads : 0;
	*out = {{(a.rows * each + QUERIES - 1) / QUERIES, a.kv_heads, 1}, THREADS, uint32_t(sizeof(Shared<D>) + SWIZZLE_ALIGNMENT)};
	return has_warpgroups() && out->grid[0] && a.kv_heads < 65536 && uint64_t(a.rows) * each < 1u << 31;
}

#define X(v, D) const RegisterOverride attn_prefill_##v("attn_prefill__" #v, reinterpret_cast<const void*>(&attn_prefill<D>), 5, sizeof(attn_prefill_args), &shape<D>);
X(f16_h64, 64)
X(f16_h128, 128)
X(f16_h256, 256)
#undef X

}  // namespace
}  // namespace lw_cuda
