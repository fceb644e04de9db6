// y[r, y_col + o] (+)= sum_i x[r,i] * w[o,i], o over w0 | w1 | w2 | w3, for rows of x as they are or normed.
// The list of tiles is that of w0, then of w1, w2, w3. The first chunks of weights are under way before the records
// before this one have ended, and all rows of x share the weights. blockIdx.y counts passes of ROWS rows of x.
#pragma once
#include "kernels/shared/cuda/tiles.cuh"

namespace lw_cuda {

constexpr uint32_t GEMV_THREADS = 512;
// Rows of x that share one stream of weights.
constexpr uint32_t GEMV_ROWS_MAX = 8;
// Of a thread: for few rows no more than leave room for the expert products of the record before, and no fewer, as what is
// spilled meets a first-level cache made small by shared memory.
constexpr uint32_t gemv_registers(uint32_t rows) { return rows <= 2 ? 72 : 128; }
#define LW_CUDA_ROWS(X, v) X(v, 1) X(v, 2) X(v, 4) X(v, 8)

__host__ __device__ inline uint32_t tiles_of(uint32_t out) { return (out + TILE - 1) / TILE; }

struct Concatenation {
	Weight w[4];
	uint32_t out[4];
};

// Tile number `tile`: the weight that it belongs to, its first row in it, and that row's column in y.
struct TileOf {
	Weight w;
	uint32_t row, out, column;
	__device__ __forceinline__ TileOf(const Concatenation& all, uint32_t tile) : w(all.w[0]), out(all.out[0]), column(0) {
#pragma unroll
		for (uint32_t i = 1; i < 4; i++) {
			const bool on = tile >= tiles_of(out);
			if (!on) break;
			tile -= tiles_of(out);
			column += out;
			out = all.out[i];
			w = all.w[i];
		}
		row = tile * TILE;
		column += row;
	}
};

// A lane's outputs in a tile: a row of weights and, for each pair of activations, a row of y. One activation: half of the
// lanes have one.
template <uint32_t ROWS, bool ADD> struct Outputs {
	float* y;
	uint32_t y_stride, rows, lane;
	float old[LaneSums<ROWS>::TILES];

	template <class WITH> __device__ __forceinline__ void each(const TileOf& at, WITH with) {
		const uint32_t column = lane / 4 + lane % 2 * 8;
		float* to = y + at.column + column;
#pragma unroll
		for (uint32_t t = 0; t < LaneSums<ROWS>::TILES; t++) {
			const uint32_t row = 2 * t + lane % 4 / 2;
			with(t, row, at.row + column < at.out && row < rows, to + size_t(row) * y_stride);
		}
	}
	// What is added to, before the sums are there.
	__device__ __forceinline__ void read(const TileOf& at) {
		if (ADD) each(at, [&](uint32_t t, uint32_t, bool mine, const float* from) { old[t] = mine ? *from : 0.0f; });
	}
	__device__ __forceinline__ void write(const TileOf& at, const LaneSums<ROWS>& sums, const Staged& staged) {
		each(at, [&](uint32_t t, uint32_t row, bool mine, float* to) {
			float out[2];
			finish<ROWS>(sums, t, staged.inverses[ROWS == 1 ? 0 : row], lane, out);
			const float v = lane % 2 ? out[1] : out[0];
			if (mine) *to = ADD ? __fadd_rn(old[t], v) : v;
		});
	}
};

template <class F, uint32_t ROWS, bool ADD>
__device__ __forceinline__ void gemv(const float* x, const float* w_norm, float eps, uint32_t rows, uint32_t in_dim, const Concatenation& w, float* y, uint32_t y_stride) {
	extern __shared__ __align__(16) uint8_t shared[];
	const uint32_t lane = threadIdx.x % WARP;
	uint32_t tiles = 0;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) tiles += tiles_of(w.out[i]);

	const auto rows_at = [&](uint32_t tile) {
		const TileOf at(w, tile);
		const uint32_t last = at.out - at.row - 1;
		TileRows<F> rows;
		rows.set(0, at.w, at.row, last, in_dim);
		rows.set(1, at.w, at.row + (last < 8 ? 0 : 8), last < 8 ? last : last - 8, in_dim);
		return rows;
	};
	const uint32_t partials = StagedLayout<F>(ROWS, in_dim).bytes;
	Walk<F, ROWS> walk(blockDim.x, in_dim, tiles, shared, partials + partial_bytes<ROWS>(blockDim.x));
	for (uint32_t slot = 0; slot < walk.slots; slot++) walk.ask(slot, rows_at);
	if (w_norm)
		for (uint32_t i = threadIdx.x * 32; i < in_dim; i += blockDim.x * 32) prefetch(w_norm + i);
	wait_for_previous();

	const uint32_t first_row = blockIdx.y * ROWS, pass_rows = ROWS == 1 ? 1 : min(ROWS, rows - first_row);
	const Staged staged = stage<F, ROWS>(shared, x + size_t(first_row) * in_dim, w_norm, eps, pass_rows, in_dim, {threadIdx.x, blockDim.x, 0});
	__syncthreads();

	Outputs<ROWS, ADD> outputs{y + size_t(first_row) * y_stride, y_stride, pass_rows, lane};
	const auto early = [&](uint32_t tile) { outputs.read(TileOf(w, tile)); };
	const auto write = [&](uint32_t tile, const LaneSums<ROWS>& sums) { outputs.write(TileOf(w, tile), sums, staged); };
	walk.run(staged, reinterpret_cast<float2*>(shared + partials), rows_at, early, write);
}

// What a block and a grid are for so many tiles: one block on each multiprocessor. False where shared memory does not hold
// ROWS rows.
template <class F, uint32_t ROWS> inline bool gemv_launch(uint32_t rows, uint32_t in_dim, uint32_t tiles, const Chip& chip, Launch* out) {
	const uint32_t blocks = tiles < chip.multiprocessors ? tiles : chip.multiprocessors;
	const auto other = [&](uint32_t threads) { return StagedLayout<F>(ROWS, in_dim).bytes + partial_bytes<ROWS>(threads); };
	Teams teams;
	if (!choose_teams<F>(in_dim, (tiles + blocks - 1) / blocks, GEMV_THREADS, is_exclusive(blocks, chip), other, &teams)) return false;
	*out = {{blocks, (rows + ROWS - 1) / ROWS, 1}, teams.threads, teams.bytes, PRODUCT_CARVEOUT};
	return true;
}

// Whether the form for ROWS rows at a time is the one to take: the least that takes all rows, or the greatest that fits.
template <class F, uint32_t ROWS> inline bool gemv_shape(uint32_t rows, uint32_t in_dim, uint32_t tiles, const Chip& chip, Launch* out) {
	if (in_dim % 64 || in_dim % F::GROUP || tiles == 0) return false;
	if (!gemv_launch<F, ROWS>(rows, in_dim, tiles, chip, out)) return false;
	Launch other;
	if constexpr (ROWS > 1)
		if (ROWS / 2 >= rows && gemv_launch<F, ROWS / 2>(rows, in_dim, tiles, chip, &other)) return false;
	if constexpr (ROWS < GEMV_ROWS_MAX)
		if (ROWS < rows && gemv_launch<F, ROWS * 2>(rows, in_dim, tiles, chip, &other)) return false;
	return true;
}

// gemv_shape of the arguments of an op over w0 | w1 | w2 | w3.
template <class ARGS, class F, uint32_t ROWS> bool concatenated_shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const ARGS*>(words);
	return gemv_shape<F, ROWS>(a.rows, a.in_dim, tiles_of(a.out0) + tiles_of(a.out1) + tiles_of(a.out2) + tiles_of(a.out3), chip, out);
}

}  // namespace lw_cuda
