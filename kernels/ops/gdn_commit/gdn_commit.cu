// convState[l] and gdnState[l] as conv_silu and gdn_step leave them after the first n = min(step.committed, rows) rows of
// layer l, for heads of 128: the bits of the translated kernel, operation by operation (kernels/shared/metal/gdn_rows.h).
// n = 0 leaves them untouched.
// As many thread blocks as fit run through tiles of V_ROWS v rows of one head of one layer. S is in registers through all
// rows and what these need in shared memory; the next tile is on its way meanwhile, so that memory does not rest while
// many rows are computed. 16 threads have a v row, and QUAD of them at a time.
#include "kernels/shared/cuda/gdn.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t DIM = HEAD_DIM, ROWS_MAX = 16, PAST = 3, QUAD = 4, QUADS = DIM / QUAD;
constexpr uint32_t TEAM = QUADS / 2;  // threads of a v row
constexpr uint32_t THREADS = 128, RESIDENT = 5, V_ROWS = THREADS / TEAM * QUAD, TILES = DIM / V_ROWS;

template <uint32_t BYTES> __device__ __forceinline__ void bring(void* to, const void* from) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from), "n"(BYTES) : "memory");
}

// What the rows of a tile need.
struct Rows {
	float4 k[ROWS_MAX][QUADS], d[ROWS_MAX][V_ROWS / 4];
	float g[ROWS_MAX];

	// Of the first n; every thread waits for its own part.
	__device__ void bring_of(uint32_t tile, uint32_t n, const gdn_commit_args& a, const float* qk, const float* g_all, const float* d_all) {
		const uint32_t h = tile / TILES % a.v_heads, v0 = tile % TILES * V_ROWS, key_head = a.head_map == 1 ? h % a.k_heads : h / (a.v_heads / a.k_heads);
		const size_t first = size_t(tile / TILES / a.v_heads) * a.rows;
		for (uint32_t i = threadIdx.x; i < n * QUADS; i += THREADS) bring<16>(&k[0][0] + i, qk + ((2 * (first + i / QUADS) + 1) * a.k_heads + key_head) * DIM + i % QUADS * 4);
		static_assert(ROWS_MAX * V_ROWS / 4 <= THREADS, "a thread brings 4 values at most");
		const uint32_t r = threadIdx.x / (V_ROWS / 4), at = threadIdx.x % (V_ROWS / 4);
		if (r < n) bring<16>(&d[r][at], d_all + ((first + r) * a.v_heads + h) * DIM + v0 + at * 4);
		if (threadIdx.x < n) bring<4>(g + threadIdx.x, g_all + (first + threadIdx.x) * a.v_heads + h);
	}
};

// Of the v rows of one team: of each a thread has float4s t and t + TEAM.
struct Tile {
	float4 s[QUAD][2];
	__device__ static float4* of(float* gdn_state, uint32_t tile, uint32_t team) { return reinterpret_cast<float4*>(gdn_state) + (size_t(tile) * V_ROWS + team * QUAD) * QUADS; }
	__device__ void load(const float4* from, uint32_t t) {
#pragma unroll
		for (uint32_t i = 0; i < QUAD; i++)
#pragma unroll
			for (uint32_t p = 0; p < 2; p++) s[i][p] = from[i * QUADS + t + p * TEAM];
	}
	__device__ void store(float4* to, uint32_t t) const {
#pragma unroll
		for (uint32_t i = 0; i < QUAD; i++)
#pragma unroll
			for (uint32_t p = 0; p < 2; p++) to[i * QUADS + t + p * TEAM] = s[i][p];
	}
	// Through the first n rows.
	__device__ void walk(const Rows& in, uint32_t n, uint32_t team, uint32_t t) {
		const float decays = expf(in.g[t]);  // of row t
		for (uint32_t r = 0; r < n; r++) {
			const float4 k[2] = {in.k[r][t], in.k[r][t + TEAM]}, d4 = in.d[r][team];
			const float decay = __shfl_sync(~0u, decays, r, TEAM), d[QUAD] = {d4.x, d4.y, d4.z, d4.w};
#pragma unroll
			for (uint32_t i = 0; i < QUAD; i++)
#pragma unroll
				for (uint32_t p = 0; p < 2; p++) s[i][p] = updated(s[i][p], decay, d[i], k[p]);
		}
	}
};
static_assert(ROWS_MAX == TEAM, "a thread of a team has the decay of a row");
static_assert(QUAD == 4, "a float4 has a d for each v row of a team");

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

__global__ void __launch_bounds__(THREADS, RESIDENT) commit(const float* proj, const float* qk, const float* g, const float* d, const uint32_t* step, float* conv_state, float* gdn_state,
                                                            const __grid_constant__ gdn_commit_args a, unsigned long long* stamp) {
	__shared__ Rows rows[2];
	const uint32_t team = threadIdx.x / TEAM, t = threadIdx.x % TEAM, tiles = a.layers * a.v_heads * TILES;
	wait_for_previous();
	const uint32_t n = min(step[LW_STEP_COMMITTED], a.rows);
	if (n == 0) return stamp_end(stamp);

	Tile here, next;
	here.load(Tile::of(gdn_state, blockIdx.x, team), t);
	rows[0].bring_of(blockIdx.x, n, a, qk, g, d);
	keep_past(a, n, proj, conv_state);
	uint32_t turn = 0;
	for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn ^= 1) {
		asm volatile("cp.async.wait_all;" ::: "memory");
		__syncthreads();
		if (tile + gridDim.x < tiles) {
			next.load(Tile::of(gdn_state, tile + gridDim.x, team), t);
			rows[turn ^ 1].bring_of(tile + gridDim.x, n, a, qk, g, d);
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
RegisterOverride commit_override("gdn_commit", (const void*)commit, 7, sizeof(gdn_commit_args), shape);

}  // namespace
}  // namespace lw_cuda
