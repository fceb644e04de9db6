// How a block walks tiles of 16 rows of weights. A tile's rows are cut into chunks, which are dealt out to `parts` warps,
// and the parts are added in their order. A block has several such teams of warps; together they take every
// gridDim.x-th tile. Each warp has one or two slots in shared memory for chunks, and asks for the next chunk where it has
// used one.
#pragma once
#include "kernels/shared/cuda/activations.cuh"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {

constexpr uint32_t TILE = 16;
constexpr uint32_t SHARED_BYTES_MAX = 227 << 10;
// Slots of a warp.
constexpr uint32_t SLOTS_MAX = 2;

// Warps among which the chunks of a row of weights are dealt out: part of the order of sums, so a function of chunks alone.
__host__ __device__ inline uint32_t parts_of(uint32_t chunks) {
	if (chunks <= 8) return chunks;
	uint32_t best = 8, rounds = (chunks + 7) / 8 * 8;
	for (uint32_t parts = 4; parts <= 8; parts++) {
		const uint32_t turns = (chunks + parts - 1) / parts * parts;
		if (turns < rounds || (turns == rounds && parts > best)) {
			best = parts;
			rounds = turns;
		}
	}
	return best;
}

// The sums of a warp's lanes in shared memory: pairs of floats, neighbouring lanes side by side.
template <uint32_t ROWS> __device__ __forceinline__ void put_sums(float2* to, const LaneSums<ROWS>& sums, uint32_t lane) {
#pragma unroll
	for (uint32_t t = 0; t < LaneSums<ROWS>::TILES; t++)
#pragma unroll
		for (uint32_t p = 0; p < LaneSums<ROWS>::PARITIES; p++) to[(t * LaneSums<ROWS>::PARITIES + p) * WARP + lane] = make_float2(sums.v[t][p][0], sums.v[t][p][1]);
}
template <uint32_t ROWS> __device__ __forceinline__ void add_sums(LaneSums<ROWS>& sums, const float2* from, uint32_t lane) {
#pragma unroll
	for (uint32_t t = 0; t < LaneSums<ROWS>::TILES; t++)
#pragma unroll
		for (uint32_t p = 0; p < LaneSums<ROWS>::PARITIES; p++) {
			const float2 v = from[(t * LaneSums<ROWS>::PARITIES + p) * WARP + lane];
			sums.v[t][p][0] = __fadd_rn(sums.v[t][p][0], v.x);
			sums.v[t][p][1] = __fadd_rn(sums.v[t][p][1], v.y);
		}
}

// The sums of a team's warps, added up in their order, for its first warp. `of_team`: room for them, which the team may use
// again in the turn behind the next.
template <uint32_t ROWS> __device__ __forceinline__ void add_parts(LaneSums<ROWS>& sums, float2* of_team, uint32_t team, uint32_t parts, uint32_t part, uint32_t lane) {
	constexpr uint32_t PAIRS = LaneSums<ROWS>::N / 2 * WARP;
	if (parts == 1) return;
	if (part > 0) put_sums<ROWS>(of_team + part * PAIRS, sums, lane);
	asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(parts * WARP) : "memory");
	if (part == 0)
		for (uint32_t i = 1; i < parts; i++) add_sums<ROWS>(sums, of_team + i * PAIRS, lane);
}

// Bytes of shared memory for the sums of a block of so many threads: two turns of them.
template <uint32_t ROWS> __host__ __device__ inline uint32_t partial_bytes(uint32_t threads) { return 2 * threads * LaneSums<ROWS>::N * 4; }

__device__ __forceinline__ uint32_t dynamic_shared_bytes() {
	uint32_t bytes;
	asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
	return bytes;
}

template <class F, uint32_t ROWS> struct Walk {
	uint32_t lane, in_dim, chunks, parts, teams, team, part, stride, tiles;
	// The unit, a tile and a chunk, to be asked for next.
	uint32_t tile, next_tile, next_chunk, slots;
	Chunk<F>* ring;

	// For a block's first `threads` threads. The slots are what the block has of shared memory from `rings` on.
	__device__ __forceinline__ Walk(uint32_t threads, uint32_t in_dim_, uint32_t tiles_, uint8_t* shared, uint32_t rings) : lane(threadIdx.x % WARP), in_dim(in_dim_), tiles(tiles_) {
		const uint32_t warp = threadIdx.x / WARP;
		chunks = F::chunks(in_dim);
		parts = parts_of(chunks);
		teams = threads / WARP / parts;
		team = warp / parts;
		part = warp % parts;
		next_tile = tile = team * gridDim.x + blockIdx.x;
		next_chunk = part;
		stride = teams * gridDim.x;
		slots = min(SLOTS_MAX, (dynamic_shared_bytes() - rings) / (threads / WARP * uint32_t(sizeof(Chunk<F>))));
		ring = reinterpret_cast<Chunk<F>*>(shared + rings) + warp * slots;
	}

	// Asks for the next unit, if there is one. `rows_at(tile)`: its TileRows.
	template <class ROWS_AT> __device__ __forceinline__ void ask(uint32_t slot, ROWS_AT rows_at) {
		if (next_tile < tiles) {
			ring[slot].copy(rows_at(next_tile), next_chunk, in_dim, lane);
			next_chunk += parts;
			if (next_chunk >= chunks) {
				next_chunk = part;
				next_tile += stride;
			}
		}
		end_copies();
	}

	// All tiles; every slot has been asked for. `early(tile)` is called in the team's first warp before it has sums, or with
	// many rows of them before they are complete, as they take all registers; `write(tile, sums)` when they are.
	template <class ROWS_AT, class EARLY, class WRITE>
	__device__ __forceinline__ void run(const Staged& staged, float2* partials, ROWS_AT rows_at, EARLY early, WRITE write) {
		constexpr uint32_t PAIRS = LaneSums<ROWS>::N / 2 * WARP;
		uint32_t slot = 0;
		for (uint32_t turn = 0; tile < tiles; turn++, tile += stride) {
			LaneSums<ROWS> sums{};
			if (ROWS <= 2 && part == 0) early(tile);
			for (uint32_t c = part; c < chunks; c += parts) {
				wait_for_copies(slots > 1);
				__syncwarp();
				add_chunk<F, ROWS>(ring[slot], staged, c, lane, sums);
				__syncwarp();
				ask(slot, rows_at);
				slot = slots - 1 - slot;
			}
			if (ROWS > 2 && part == 0) early(tile);
			add_parts<ROWS>(sums, partials + (turn % 2 * teams + team) * parts * PAIRS, team, parts, part, lane);
			if (part == 0) write(tile, sums);
		}
	}
};

// A grid of few blocks need not be alone: it leaves most multiprocessors idle anyway, and may load its weights beside the
// record before.
inline bool is_exclusive(uint32_t blocks, const Chip& chip) { return blocks > chip.multiprocessors / 4; }

// Products with weights have 196 KB shared of 228: two of them side by side, and 60 KB of first-level cache.
constexpr uint32_t PRODUCT_CARVEOUT = 86;

// From so many rounds of a block on, one slot a warp is faster than two: measured.
constexpr uint32_t LONG_ROUNDS = 6;

// Threads of a block with `tiles` tiles, no more than `threads_max`, and its shared memory: `other_bytes(threads)` and
// the warps' slots; more than half of a multiprocessor's where the block is to be `exclusive`. No more of either than
// there are units, so that where it can be all of them are under way at once. False where not one slot fits.
struct Teams {
	uint32_t threads, bytes;
};
template <class F, class BYTES> inline bool choose_teams(uint32_t in_dim, uint32_t tiles, uint32_t threads_max, bool exclusive, BYTES other_bytes, Teams* out) {
	const uint32_t chunks = F::chunks(in_dim), parts = parts_of(chunks), turns = (chunks + parts - 1) / parts;
	const uint32_t most = threads_max / WARP / parts, rounds = (tiles + most - 1) / most;
	// The fewest teams that need no more rounds.
	const uint32_t teams = (tiles + rounds - 1) / rounds, threads = teams * parts * WARP;
	for (uint32_t slots = rounds < LONG_ROUNDS && rounds * turns > 1 ? SLOTS_MAX : 1; slots; slots--) {
		const uint32_t bytes = other_bytes(threads) + slots * teams * parts * uint32_t(sizeof(Chunk<F>));
		*out = {threads, exclusive && bytes < EXCLUSIVE_BYTES ? EXCLUSIVE_BYTES : bytes};
		if (bytes <= SHARED_BYTES_MAX) return true;
	}
	return false;
}

}  // namespace lw_cuda
