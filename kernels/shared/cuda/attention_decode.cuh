// Decode attention for a row and up to ATTN_HEADS query heads of one key head: the blocks of attn_split, which enter the
// row's result as attn_merge does it, all in one. What attn_decode and attn_decode_gate share.
//
// A cluster of a thread block a slice goes through the cache block of keys after block, so that all that a block needs of
// the cache is under way at once. In a thread block a warp does a chunk of dims of the scores of all keys, then the weights
// of a head, then as many dims of the values. What a slice has of head i goes to thread block i, which sums it up.
#pragma once
#include "kernels/shared/cuda/attention.cuh"
#include "kernels/shared/cuda/cluster.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {

// For heads of D dims: a thread a dim.
template <uint32_t D> struct Decode {
	static constexpr uint32_t THREADS = D, WARPS = D / WARP;
	static constexpr uint32_t SENT = SLICES * (D * 4 + 16);  // bytes that a thread block gets of a block of keys
	static_assert(CHUNK == WARP, "a warp has a chunk");

	struct Shared {
		float score[WARPS][ATTN_HEADS][SLICE + 8];
		uint16_t weight[2][ATTN_HEADS][SLICE + 8];  // hi and lo
		float max[ATTN_HEADS];
		// Of blocks of keys by turns: values of one head, and its maximum and sum.
		float4 value[2][SLICES][D / 4], stat[2][SLICES];
		uint64_t whole[2];
	};
};

// What a thread has of a row and head: of the blocks so far, maximum and sum; of one more, how much it and they count.
// A block whose sum is 0 has no keys.
struct Running {
	float max = ATTN_LOWEST, sum = 0.0f, before, now;

	__device__ void see(float block_max, float block_sum) {
		const float top = fmaxf(max, block_sum == 0.0f ? ATTN_LOWEST : block_max);
		before = expf(__fsub_rn(max, top));
		now = block_sum == 0.0f ? 0.0f : expf(__fsub_rn(block_max, top));
		sum = __fmaf_rn(sum, before, __fmul_rn(block_sum, now));
		max = top;
	}
	__device__ float add(float o, float partial) const { return now == 0.0f ? o : __fmaf_rn(o, before, __fmul_rn(partial, now)); }
	__device__ float inverse() const { return sum == 0.0f ? 0.0f : __fdiv_rn(1.0f, sum); }
};

#if LW_CLUSTERS
// A gate has of(r, h, d), of dim d of a head, and factor(that), by which the result is multiplied. The record before may have
// queries to write, and keys and values from the position on: what is older is read before the wait for it.
struct NoGate {
	__device__ float of(uint32_t, uint32_t, uint32_t) const { return 1.0f; }
	__device__ float factor(float x) const { return x; }
};

template <uint32_t D, typename ARGS, typename GATE>
__device__ __forceinline__ void decode_heads(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* o, const ARGS& a, GATE gate) {
	typedef Decode<D> F;
	extern __shared__ float4 shared[];
	auto& s = *reinterpret_cast<typename F::Shared*>(shared);
	if (threadIdx.x == 0)
		for (uint64_t& barrier : s.whole) expect_bytes(&barrier, F::SENT);
	arrive_at_cluster();
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	const uint32_t slice = blockIdx.x % SLICES, tile = blockIdx.x / SLICES, tiles = head_tiles(a.q_heads, a.kv_heads), kv = tile / tiles, r = blockIdx.y;
	const HeadTile heads = head_tile(a.q_heads, a.kv_heads, kv, tile % tiles);
	const uint32_t pos = position(step);
	const uint64_t keys = keys_seen(pos, r, a.ctx);
	const bool is_head = slice < heads.count;
	const size_t head = size_t(r) * a.q_heads + heads.first;

	// What a lane has of a slice: keys and values from the one at `first` on, of which those from `from` up to `to` are loaded.
	uint4 key[TILES] = {};
	uint2 value[2 * TILES] = {};
	const size_t chunk = size_t(kv) * a.ctx * (D * 2) + warp * (CHUNK * 2);
	const uint8_t* k = k_cache + chunk + g * (D * 2) + t * sizeof *key;
	const uint8_t* v = v_cache + chunk + 2 * t * (D * 2) + g * sizeof *value;
	const auto load = [&](uint64_t first, uint32_t from, uint32_t to) {
		const uint8_t *keys = k + first * (D * 2), *values = v + first * (D * 2);
#pragma unroll
		for (uint32_t f = 0; f < TILES; f++) {
			const uint32_t i = f * TILE + g;
			if (i >= from && i < to) key[f] = __ldcg(reinterpret_cast<const uint4*>(keys + f * TILE * (D * 2)));
		}
#pragma unroll
		for (uint32_t f = 0; f < 2 * TILES; f++) {
			const uint32_t i = value_key(f, t);
			if (i >= from && i < to) value[f] = __ldcg(reinterpret_cast<const uint2*>(values + value_key(f, 0) * (D * 2)));
		}
	};
	const auto in_slice = [&](uint64_t first, uint64_t to) { return first < to ? uint32_t(min(to - first, uint64_t(SLICE))) : 0; };
	uint32_t loaded = in_slice(slice * SLICE, min(uint64_t(pos), keys));
	load(slice * SLICE, 0, loaded);
	wait_for_cluster();  // all of it run and expect what they are sent
	wait_for_previous();

	float4 x[2] = {};
	if (g < heads.count)
#pragma unroll
		for (uint32_t i = 0; i < 2; i++) x[i] = __ldcg(reinterpret_cast<const float4*>(q + (head + g) * D + warp * CHUNK + 8 * t) + i);
	const float gated = is_head ? gate.of(r, heads.first + slice, threadIdx.x) : 0.0f;
	float factor = 1.0f, result = 0.0f;
	Running running;
	uint32_t block = 0;
	do {
		const uint64_t first = uint64_t(block) * LW_ATTN_BLOCK + slice * SLICE;
		const uint32_t n = in_slice(first, keys);  // keys that the row sees
		if (loaded < n) load(first, loaded, n);
		loaded = 0;

		// A lane has dims 8 t and up of head g; columns of fragment f are its dims 4 g + f.
		float2 of_dims[4] = {};
		float max = ATTN_LOWEST, sum = 0.0f;
		if (n) {
			uint32_t hi[TILES], lo[TILES];
			const float power = split_query<4>({x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w}, hi, lo);
#pragma unroll
			for (uint32_t f = 0; f < TILES; f++) *reinterpret_cast<float2*>(&s.score[warp][g][f * TILE + 2 * t]) = chunk_score(hi, lo, key[f], power);
			__syncthreads();
#pragma unroll
			for (uint32_t i = warp; i < ATTN_HEADS; i += F::WARPS) {
				float score = 0.0f;
#pragma unroll
				for (uint32_t c = 0; c < F::WARPS; c++) score = __fadd_rn(score, s.score[c][i][lane]);
				const KeyWeight weight = weight_of(__fmul_rn(score, a.scale), lane < n);
				s.weight[0][i][lane] = weight.hi;
				s.weight[1][i][lane] = weight.lo;
				if (lane == 0) s.max[i] = weight.max;
			}
			__syncthreads();
#pragma unroll
			for (uint32_t f = 0; f < TILES; f++) {
				hi[f] = *reinterpret_cast<const uint32_t*>(&s.weight[0][g][f * TILE + 2 * t]);
				lo[f] = *reinterpret_cast<const uint32_t*>(&s.weight[1][g][f * TILE + 2 * t]);
			}
#pragma unroll
			for (uint32_t f = 0; f < 4; f++) of_dims[f] = slice_product(hi, lo, value_pairs(value, f).of);
			max = s.max[g];
			sum = slice_sum(hi, lo);
		}

		// A buffer is free again: who is here has got all of the block in between, of thread blocks which had read this one.
		const uint32_t turn = block % 2;
		uint64_t* whole = &s.whole[turn];
		float4* to = &s.value[turn][slice][warp * (CHUNK / 4) + 2 * t];
		send(g, to, whole, {of_dims[0].x, of_dims[1].x, of_dims[2].x, of_dims[3].x});
		send(g, to + 1, whole, {of_dims[0].y, of_dims[1].y, of_dims[2].y, of_dims[3].y});
		if (warp == 0 && t == 0) send(g, &s.stat[turn][slice], whole, {max, sum, 0.0f, 0.0f});
		if (block == 0) {
			factor = gate.factor(gated);
			asm volatile("" : "+f"(factor));  // here, while there is time
		}
		wait_for_bytes(whole, block / 2);
		if (threadIdx.x == 0) expect_more_bytes(whole, F::SENT);
		float sums[SLICES], values[SLICES];
		Slices slices;
#pragma unroll
		for (uint32_t w = 0; w < SLICES; w++) {
			slices.max = fmaxf(slices.max, s.stat[turn][w].x);
			sums[w] = s.stat[turn][w].y;
			values[w] = reinterpret_cast<const float*>(s.value[turn][w])[threadIdx.x];
		}
		const float counts = expf(__fsub_rn(s.stat[turn][lane % SLICES].x, slices.max));
#pragma unroll
		for (uint32_t w = 0; w < SLICES; w++) slices.factor[w] = __shfl_sync(~0u, counts, w);
		running.see(slices.max, slices.sum(sums));
		result = running.add(result, slices.sum(values));
	} while (uint64_t(++block) * LW_ATTN_BLOCK < keys);
	if (is_head) o[(head + slice) * D + threadIdx.x] = __fmul_rn(__fmul_rn(result, running.inverse()), factor);
}
#endif

template <uint32_t D, typename ARGS> bool decode_shape(const void* kernel, const void* words, Launch* out) {
	const auto& a = *static_cast<const ARGS*>(words);
	if (!has_clusters(kernel)) return false;
	*out = {{SLICES * a.kv_heads * head_tiles(a.q_heads, a.kv_heads), a.rows, 1}, Decode<D>::THREADS, sizeof(typename Decode<D>::Shared)};
	return true;
}

}  // namespace lw_cuda
