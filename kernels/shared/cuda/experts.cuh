// Products with the chosen experts of each row. Experts differ from row to row, so rows share no weights and are
// blockIdx.y; a row's experts, with the shared one where there is one, run side by side over the grid.
#pragma once
#include "kernels/shared/cuda/router.cuh"
#include "kernels/shared/cuda/tiles.cuh"

namespace lw_cuda {

// A weight of each expert, of `rows` rows, the first of which that counts is `row`; and the shared expert's.
struct ExpertWeight {
	Weight routed, shared;
	uint32_t rows, row;
};

// gate_up: a tile is 8 rows of gate and the same 8 of up.
constexpr uint32_t GATE_UP_TILE = 8;
// Room for five tiles of four parts at a time, and a warp that chooses.
constexpr uint32_t GATE_UP_THREADS = 672;
__host__ __device__ inline uint32_t gate_up_tiles(uint32_t ffn) { return (ffn + GATE_UP_TILE - 1) / GATE_UP_TILE; }

// h[r,k,j] = silu(gate[e,j] . x[r]) * (up[e,j] . x[r]) for the slots k, e the k-th choice of row r. With KEYS the
// block chooses, x is normed, and slot top_k is the shared expert; one more warp does the choosing, and block 0 of a row
// writes the choice to ids and weights. Without, ids has the choice. Zeros for an expert outside.
template <class F, uint32_t KEYS>
__device__ __forceinline__ void gate_up(const float* x, const float* w_norm, float eps, uint32_t in_dim, const float* logits, uint32_t experts, uint32_t top_k,
                                        const ExpertWeight& gate, const ExpertWeight& up, uint32_t ffn, uint32_t* ids, float* weights, float* h) {
	constexpr bool ROUTE = KEYS > 0;
	extern __shared__ __align__(16) uint8_t shared[];
	__shared__ uint32_t chosen[TOP_K_MAX];
	const uint32_t lane = threadIdx.x % WARP, threads = blockDim.x - (ROUTE ? WARP : 0);
	const bool router = threadIdx.x >= threads;
	const uint32_t slot_tiles = gate_up_tiles(ffn), slots = top_k + ROUTE, row = blockIdx.y;

	// The shared expert's tiles come first: nothing has to be chosen for them.
	const auto slot_of = [&](uint32_t tile) { return ROUTE ? (tile < slot_tiles ? top_k : tile / slot_tiles - 1) : tile / slot_tiles; };
	const auto outside = [&](uint32_t slot) { return slot < top_k && chosen[slot] >= experts; };
	const auto rows_at = [&](uint32_t tile) {
		const uint32_t slot = slot_of(tile), j = tile % slot_tiles * GATE_UP_TILE, last = ffn - j - 1;
		TileRows<F> rows;
		if (ROUTE && slot == top_k) {
			rows.set(0, gate.shared, j, last, in_dim);
			rows.set(1, up.shared, j, last, in_dim);
		} else {
			const size_t expert = outside(slot) ? 0 : chosen[slot];
			rows.set(0, gate.routed, expert * gate.rows + gate.row + j, last, in_dim);
			rows.set(1, up.routed, expert * up.rows + up.row + j, last, in_dim);
		}
		return rows;
	};

	const uint32_t partials = StagedLayout<F>(1, in_dim).bytes;
	Walk<F, 1> walk(threads, in_dim, router ? 0 : slots * slot_tiles, shared, partials + partial_bytes<1>(threads));
	uint32_t asked = 0;
	while (ROUTE && asked < walk.slots && walk.next_tile < slot_tiles && !router) walk.ask(asked++, rows_at);
	if (w_norm)
		for (uint32_t i = threadIdx.x * 32; i < in_dim; i += blockDim.x * 32) prefetch(w_norm + i);
	wait_for_previous();

	Staged staged{};
	Choice choice{};
	if constexpr (ROUTE) {
		if (router) {
			choice = choose<KEYS>(logits, experts, top_k, lane);
			if (lane < top_k) chosen[lane] = choice.id;
		}
	}
	if (!ROUTE && threadIdx.x < top_k) chosen[threadIdx.x] = ids[row * top_k + threadIdx.x];
	if (!router) staged = stage<F, 1>(shared, x + size_t(row) * in_dim, w_norm, eps, 1, in_dim, {threadIdx.x, threads, 15});
	__syncthreads();
	if (ROUTE && router) {
		if (blockIdx.x > 0) return;
		const float weight = chosen_weight(top_k, lane, choice);
		if (lane < top_k) {
			store_relaxed(ids + row * top_k + lane, choice.id);
			weights[row * top_k + lane] = weight;
		}
		return;
	}
	if (walk.tile >= walk.tiles) return;
	while (asked < walk.slots) walk.ask(asked++, rows_at);

	// Where a lane's output goes, and whether it is one: known before the sums are.
	float* to = nullptr;
	bool is_zero = false;
	const auto early = [&](uint32_t tile) {
		const uint32_t slot = slot_of(tile), j = tile % slot_tiles * GATE_UP_TILE + lane / 4;
		to = lane % 4 == 0 && j < ffn ? h + (size_t(row) * slots + slot) * ffn + j : nullptr;
		is_zero = outside(slot);
	};
	const auto write = [&](uint32_t, const LaneSums<1>& sums) {
		float out[2];
		finish<1>(sums, 0, staged.inverses[0], lane, out);
		if (to) *to = is_zero ? 0.0f : silu(out[0]) * out[1];
	};
	walk.run(staged, reinterpret_cast<float2*>(shared + partials), rows_at, early, write);
}

template <class F, bool ROUTE> inline bool gate_up_shape(uint32_t rows, uint32_t in_dim, uint32_t slots, uint32_t ffn, const Chip& chip, Launch* out) {
	const uint32_t tiles = slots * gate_up_tiles(ffn);
	if (in_dim % 64 || in_dim % F::GROUP || tiles == 0 || slots > TOP_K_MAX + ROUTE) return false;
	const uint32_t blocks = tiles < chip.multiprocessors ? tiles : chip.multiprocessors;
	const auto other = [&](uint32_t threads) { return uint32_t(StagedLayout<F>(1, in_dim).bytes + partial_bytes<1>(threads) + TOP_K_MAX * 4); };
	Teams teams;
	if (!choose_teams<F>(in_dim, (tiles + blocks - 1) / blocks, GATE_UP_THREADS - ROUTE * WARP, true, other, &teams)) return false;
	// The choice is no part of the dynamic bytes.
	*out = {{blocks, rows, 1}, teams.threads + ROUTE * WARP, uint32_t(teams.bytes - TOP_K_MAX * 4), PRODUCT_CARVEOUT};
	return true;
}

// down: a block does a tile of d. A unit is a chunk of one slot; warps take units in turn, each with its piece of h.
// With so few registers a thread the product of the next record has room beside it, and loads its weights meanwhile.
constexpr uint32_t DOWN_THREADS = 512, DOWN_REGISTERS = 96;

template <class F> struct DownLayout {
	uint32_t staged, dots, bytes;
	__host__ __device__ DownLayout(uint32_t warps, uint32_t units) {
		staged = StagedLayout<F>(1, F::CHUNK).bytes;
		dots = warps * (sizeof(Chunk<F>) + staged);
		bytes = dots + units * TILE * 4;
	}
};

// y[r,d] (+)= sum_k weights[r,k] * (down[e,d] . h[r,k]), k ascending, e = ids[r,k]; with SHARED y gets more:
// sigmoid(*gate_logit) * (shared_down[d] . h[r,top_k]). Each unit's products are weighed before they are added up.
template <class F, bool SHARED>
__device__ __forceinline__ void down(const float* h, const uint32_t* ids, const float* weights, uint32_t top_k, uint32_t experts, const float* gate_logit, const Weight& routed,
                                     const Weight& shared_down, uint32_t ffn, uint32_t dim, float* y) {
	extern __shared__ __align__(16) uint8_t shared[];
	const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
	const uint32_t chunks = F::chunks(ffn), slots = top_k + SHARED, units = slots * chunks, d = blockIdx.x * TILE, row = blockIdx.y;
	const uint32_t warps = min(blockDim.x / WARP, units);
	const DownLayout<F> layout(warps, units);
	float* dots = reinterpret_cast<float*>(shared + layout.dots);
	ids += row * top_k;

	Chunk<F>& chunk = reinterpret_cast<Chunk<F>*>(shared)[warp];
	uint8_t* staged_at = shared + warps * sizeof(Chunk<F>) + warp * layout.staged;
	const auto ask = [&](uint32_t unit, uint32_t id) {
		const uint32_t slot = unit / chunks, second = d + (d + 8 < dim ? 8 : 0);
		const Weight& w = SHARED && slot == top_k ? shared_down : routed;
		const size_t first = size_t(id < experts ? id : 0) * dim;
		TileRows<F> rows;
		rows.set(0, w, first + d, dim - d - 1, ffn);
		rows.set(1, w, first + second, dim - second - 1, ffn);
		chunk.copy(rows, unit % chunks, ffn, lane);
		end_copies();
	};

	// The shared expert is number 0 of its own.
	const auto expert_of = [&](uint32_t unit) { return SHARED && unit / chunks == top_k ? 0 : load_relaxed(ids + unit / chunks); };
	// The record before may be about to choose. As a rule it has done so long ago; what it has to say when it has ended counts.
	uint32_t unit = warp, asked = 0;
	if (unit < units) ask(unit, asked = expert_of(unit));
	wait_for_previous();

	float old = 0.0f;
	if (SHARED && threadIdx.x < TILE && d + threadIdx.x < dim) old = y[size_t(row) * dim + d + threadIdx.x];

	for (; unit < units; unit += warps) {
		const uint32_t slot = unit / chunks, c = unit % chunks, expert = expert_of(unit);
		// An expert outside adds nothing.
		const bool outside = slot < top_k && expert >= experts;
		const float weight = slot < top_k ? weights[row * top_k + slot] : *gate_logit;
		const Staged staged = stage<F, 1>(staged_at, h + (size_t(row) * slots + slot) * ffn + c * F::CHUNK, nullptr, 0.0f, 1, min(F::CHUNK, ffn - c * F::CHUNK), {lane, WARP, 0});
		wait_for_copies(false);
		// Lanes read while the record before may have written, and need not have read the same.
		if (__any_sync(~0u, expert != asked)) {
			__syncwarp();
			ask(unit, expert);
			wait_for_copies(false);
		}
		__syncwarp();
		LaneSums<1> sums{};
		add_chunk<F, 1>(chunk, staged, 0, lane, sums);
		__syncwarp();
		if (unit + warps < units) ask(unit + warps, asked = expert_of(unit + warps));
		float out[2];
		finish<1>(sums, 0, staged.inverses[0], lane, out);
		const float product = __fmul_rn(slot < top_k ? weight : sigmoid(weight), lane % 2 ? out[1] : out[0]);
		if (lane % 4 < 2) dots[unit * TILE + lane / 4 + lane % 2 * 8] = outside ? 0.0f : product;
	}
	__syncthreads();
	if (threadIdx.x >= TILE || d + threadIdx.x >= dim) return;
	float sum = 0.0f;
#pragma unroll 9
	for (uint32_t u = 0; u < units; u++) sum = __fadd_rn(sum, dots[u * TILE + threadIdx.x]);
	y[size_t(row) * dim + d + threadIdx.x] = SHARED ? __fadd_rn(old, sum) : sum;
}

template <class F, bool SHARED> inline bool down_shape(uint32_t rows, uint32_t ffn, uint32_t top_k, uint32_t dim, Launch* out) {
	const uint32_t units = (top_k + SHARED) * F::chunks(ffn), turns = (units + DOWN_THREADS / WARP - 1) / (DOWN_THREADS / WARP);
	if (ffn % 64 || ffn % F::GROUP || units == 0 || dim == 0) return false;
	// By fours, as registers are those of quarters of a multiprocessor: there is no room for two blocks, but for the next
	// record's.
	const uint32_t warps = ((units + turns - 1) / turns + 3) / 4 * 4;
	*out = {{(dim + TILE - 1) / TILE, rows, 1}, warps * WARP, DownLayout<F>(warps < units ? warps : units, units).bytes, PRODUCT_CARVEOUT};
	return out->dynamic_bytes <= SHARED_BYTES_MAX;
}

}  // namespace lw_cuda
