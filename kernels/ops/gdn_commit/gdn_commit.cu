// convState[l] and gdnState[l] as conv_silu and gdn_step leave them after the first n = min(step.committed, rows) rows of
// layer l, for heads of 128: the bits of the translated kernel, operation by operation (kernels/shared/metal/gdn_rows.h).
// n = 0 leaves them untouched.
// As many thread blocks as fit run through tiles of V_ROWS v rows of one head of one layer. S is in registers through all
// rows and what these need in shared memory; the next tile is on its way meanwhile, so that memory does not rest while
// many rows are computed. 16 threads have a v row. What the translated kernel's lanes l and l ^ 2 have of it is one
// thread's, as those are the first two that the sum over lanes adds.
#include "kernels/shared/cuda/gdn.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t DIM = HEAD_DIM, ROWS_MAX = 16, PAST = 3, QUAD = 4, QUADS = DIM / QUAD;
constexpr uint32_t TEAM = QUADS / 2;  // threads of a v row, which do QUAD of them
constexpr uint32_t THREADS = 128, RESIDENT = 5, V_ROWS = THREADS / TEAM * QUAD, TILES = DIM / V_ROWS;

// Thread t of a team gets the sum over the team of value value_of(t), in the order of the translated kernel.
__device__ __forceinline__ float sums_of_team(const float (&v)[QUAD], uint32_t t) {
	const auto across = [](float v, uint32_t by) { return __shfl_xor_sync(~0u, v, by); };
	const bool odd = t & 1, upper = t & 2;
	const float low = __fadd_rn(odd ? v[2] : v[0], across(odd ? v[0] : v[2], 1)), high = __fadd_rn(odd ? v[3] : v[1], across(odd ? v[1] : v[3], 1));
	float sum = __fadd_rn(upper ? high : low, across(upper ? low : high, 2));
	sum = __fadd_rn(sum, across(sum, 4));
	return __fadd_rn(sum, across(sum, 8));
}
// And value i is thread value_of(i)'s.
__device__ constexpr uint32_t value_of(uint32_t t) { return 2 * (t & 1) + (t >> 1 & 1); }

template <uint32_t BYTES> __device__ __forceinline__ void bring(void* to, const void* from) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from), "n"(BYTES) : "memory");
}

// What the rows of a tile need.
struct Rows {
	float4 k[ROWS_MAX][QUADS], v[ROWS_MAX][V_ROWS / 4];
	float g[ROWS_MAX], beta[ROWS_MAX];

	// Of the first n; every thread waits for its own part.
	__device__ void bring_of(uint32_t tile, uint32_t n, const gdn_commit_args& a, const float* qk, const float* conv, const float* g_all, const float* beta_all) {
		const uint32_t h = tile / TILES % a.v_heads, v0 = tile % TILES * V_ROWS, key_head = a.head_map == 1 ? h % a.k_heads : h / (a.v_heads / a.k_heads);
		const size_t first = size_t(tile / TILES / a.v_heads) * a.rows;
		for (uint32_t i = threadIdx.x; i < n * QUADS; i += THREADS) bring<16>(&k[0][0] + i, qk + ((2 * (first + i / QUADS) + 1) * a.k_heads + key_head) * DIM + i % QUADS * 4);
		static_assert(ROWS_MAX * V_ROWS / 4 <= THREADS, "a thread brings 4 values at most");
		const uint32_t r = threadIdx.x / (V_ROWS / 4), at = threadIdx.x % (V_ROWS / 4);
		if (r < n) bring<16>(&v[r][at], conv + (first + r) * a.channels + (2 * size_t(a.k_heads) + h) * DIM + v0 + at * 4);
		if (threadIdx.x >= n) return;
		bring<4>(g + threadIdx.x, g_all + (first + threadIdx.x) * a.v_heads + h);
		bring<4>(beta + threadIdx.x, beta_all + (first + threadIdx.x) * a.v_heads + h);
	}
};

// Of the v rows of one team: float4s `low` and `low ^ 2`, in that order. It changes between threads, so that eight of them
// read all banks of shared memory at once; sums of two do not tell.
struct Tile {
	float4 s[QUAD][2];
	__device__ static uint32_t low(uint32_t t) { return t / 2 * 4 + (t & 1) + (t & 4) / 2; }
	__device__ static float4* of(float* gdn_state, uint32_t tile, uint32_t team) { return reinterpret_cast<float4*>(gdn_state) + (size_t(tile) * V_ROWS + team * QUAD) * QUADS; }
	__device__ void load(const float4* from, uint32_t t) {
#pragma unroll
		for (uint32_t i = 0; i < QUAD; i++) s[i][0] = from[i * QUADS + low(t)], s[i][1] = from[i * QUADS + (low(t) ^ 2)];
	}
	__device__ void store(float4* to, uint32_t t) const {
#pragma unroll
		for (uint32_t i = 0; i < QUAD; i++) to[i * QUADS + low(t)] = s[i][0], to[i * QUADS + (low(t) ^ 2)] = s[i][1];
	}
	// Through the first n rows.
	__device__ void walk(const Rows& in, uint32_t n, uint32_t team, uint32_t t) {
		const float decays = expf(in.g[t]), rates = in.beta[t];  // of row t
		for (uint32_t r = 0; r < n; r++) {
			const float4 k[2] = {in.k[r][low(t)], in.k[r][low(t) ^ 2]};
			const float v = reinterpret_cast<const float*>(in.v[r])[team * QUAD + value_of(t)];
			const float decay = __shfl_sync(~0u, decays, r, TEAM), rate = __shfl_sync(~0u, rates, r, TEAM);
			float parts[QUAD];
#pragma unroll
			for (uint32_t i = 0; i < QUAD; i++) parts[i] = __fadd_rn(dot(s[i][0], k[0]), dot(s[i][1], k[1]));
			const float d = __fmul_rn(rate, __fmaf_rn(-decay, sums_of_team(parts, t), v));
#pragma unroll
			for (uint32_t i = 0; i < QUAD; i++) {
				const float di = __shfl_sync(~0u, d, value_of(i), TEAM);
#pragma unroll
				for (uint32_t p = 0; p < 2; p++) s[i][p] = updated(s[i][p], decay, di, k[p]);
			}
		}
	}
};
static_assert(ROWS_MAX == TEAM, "a thread of a team has the gates of a row");

// Channels by fours, each a thread's: rows n, n+1 and n+2 of u = convState ++ proj.
__device__ __forceinline__ void keep_past(const gdn_commit_args& a, uint32_t n, const float* proj, float* conv_state) {
	const uint32_t quads = a.channels / 4;
	for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < a.layers * quads; i += gridDim.x * THREADS) {
		const size_t layer = i / quads, channel = i % quads * 4;
		float* past = conv_state + layer * PAST * a.channels + channel;
		const float* rows = proj + layer * a.rows * a.proj_stride + channel;
		float4 kept[PAST];
#pragma unroll
		for (uint32_t j = 0; j < PAST; j++) kept[j] = *reinterpret_cast<const float4*>(n + j < PAST ? past + (n + j) * size_t(a.channels) : rows + (n + j - PAST) * size_t(a.proj_stride));
#pragma unroll
		for (uint32_t j = 0; j < PAST; j++) *reinterpret_cast<float4*>(past + j * size_t(a.channels)) = kept[j];
	}
}

__global__ void __launch_bounds__(THREADS, RESIDENT) commit(const float* proj, const float* qk, const float* conv, const float* g, const float* beta, const uint32_t* step, float* conv_state,
                                                            float* gdn_state, const __grid_constant__ gdn_commit_args a, unsigned long long* stamp) {
	__shared__ Rows rows[2];
	const uint32_t team = threadIdx.x / TEAM, t = threadIdx.x % TEAM, tiles = a.layers * a.v_heads * TILES;
	wait_for_previous();
	const uint32_t n = min(step[LW_STEP_COMMITTED], a.rows);
	if (n == 0) return stamp_end(stamp);

	Tile here, next;
	here.load(Tile::of(gdn_state, blockIdx.x, team), t);
	rows[0].bring_of(blockIdx.x, n, a, qk, conv, g, beta);
	keep_past(a, n, proj, conv_state);
	uint32_t turn = 0;
	for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn ^= 1) {
		asm volatile("cp.async.wait_all;" ::: "memory");
		__syncthreads();
		if (tile + gridDim.x < tiles) {
			next.load(Tile::of(gdn_state, tile + gridDim.x, team), t);
			rows[turn ^ 1].bring_of(tile + gridDim.x, n, a, qk, conv, g, beta);
		}
		here.walk(rows[turn], n, team, t);
		here.store(Tile::of(gdn_state, tile, team), t);
		here = next;
	}
	stamp_end(stamp);
}

bool shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const gdn_commit_args*>(words);
	if (a.head_dim != DIM || a.channels % 4 || a.proj_stride % 4) return false;
	const uint32_t tiles = a.layers * a.v_heads * TILES, resident = chip.multiprocessors * RESIDENT;
	*out = {{tiles < resident ? tiles : resident, 1, 1}, THREADS, 0};
	return true;
}
RegisterOverride commit_override("gdn_commit", (const void*)commit, 8, sizeof(gdn_commit_args), shape);

}  // namespace
}  // namespace lw_cuda
