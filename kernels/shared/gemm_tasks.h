// What one task of a matrix product computes: a tile of the concatenated outputs of a dense product, or a tile of
// one expert for its run of pairs. P is GemmF32 or GemmAct8 and does the arithmetic.
#pragma once
#include "kernels/shared/weight_tile.h"

namespace LW_CPU_NAMESPACE {

// Rows of one task of a dense product (ROW_TILE in the ops' op.ts).
constexpr uint32_t GEMM_ROW_TILE = 128;

static inline uint32_t tiles_of(uint32_t n, uint32_t tile) { return (n + tile - 1) / tile; }

struct DenseProduct {
	const void* const* w;  // slots of four weights, three each
	uint32_t out[4];
	uint32_t rows, in_dim, group;
	float* y;
	size_t y_stride;
	uint32_t y_col;
};

// y[r, y_col + o] for o of w0 | w1 | w2 | w3. Task t: row tile t % row tiles; no tile of outputs spans two weights.
template <class P>
static void dense_tasks(const P& product, const DenseProduct& d, uint32_t begin, uint32_t end) {
	const uint32_t row_tiles = tiles_of(d.rows, GEMM_ROW_TILE);
	for (uint32_t t = begin; t < end; t++) {
		uint32_t tile = t / row_tiles, m = 0, col = d.y_col;
		while (m < 4 && tile >= tiles_of(d.out[m], TILE_OUTS)) {
			tile -= tiles_of(d.out[m], TILE_OUTS);
			col += d.out[m++];
		}
		if (m == 4) return;
		const uint32_t o = tile * TILE_OUTS, outs = d.out[m] - o < TILE_OUTS ? d.out[m] - o : TILE_OUTS;
		const uint32_t r0 = t % row_tiles * GEMM_ROW_TILE;
		const uint32_t n = d.rows - r0 < GEMM_ROW_TILE ? d.rows - r0 : GEMM_ROW_TILE;
		uint32_t rows[GEMM_ROW_TILE];
		for (uint32_t i = 0; i < n; i++) rows[i] = r0 + i;
		const WeightRows part{d.w[3 * m], d.w[3 * m + 1], d.w[3 * m + 2], o, outs, d.in_dim, d.group};
		const float* c = product(&part, 1, rows, n);
		for (uint32_t i = 0; i < n; i++)
			memcpy(d.y + (r0 + i) * d.y_stride + col + o, c + i * TILE_OUTS, outs * sizeof(float));
	}
}

// The pairs of each expert: order[offsets[e] .. offsets[e + 1]]. Both lists are read from memory and trusted in nothing.
struct ExpertRuns {
	const uint32_t *order, *offsets;
	uint32_t pairs, experts;

	// Calls run(n, pair) with up to RUN pairs of expert e at a time, until all had their turn.
	template <uint32_t RUN, class F> void each(uint32_t e, F run) const {
		if (e >= experts) return;
		uint32_t at = offsets[e], end = offsets[e + 1], pair[RUN];
		if (end > pairs) return;
		while (at < end) {
			uint32_t n = 0;
			for (; at < end && n < RUN; at++)
				if (order[at] < pairs) pair[n++] = order[at];
			if (n) run(n, pair);
		}
	}
};

struct GateUp {
	const void *const *gate, *const *up;  // three slots each
	uint32_t in_dim, group, gate_rows, up_rows, gate_row, up_row, ffn, top_k;
	float* h;
};

// h[pair,j] = silu(gate[e,gate_row+j] . x) * (up[e,up_row+j] . x), x the row of pair / top_k.
// Task t: tile t % tiles of expert t / tiles.
template <class P>
static void gate_up_tasks(const P& product, const ExpertRuns& runs, const GateUp& d, uint32_t begin, uint32_t end) {
	constexpr uint32_t HALF = TILE_OUTS / 2;
	const uint32_t tiles = tiles_of(d.ffn, HALF);
	for (uint32_t t = begin; t < end && t / tiles < runs.experts; t++) {
		const size_t e = t / tiles, j = t % tiles * HALF;
		const uint32_t outs = d.ffn - j < HALF ? d.ffn - j : HALF;
		const WeightRows part[2] = {
		    {d.gate[0], d.gate[1], d.gate[2], e * d.gate_rows + d.gate_row + j, outs, d.in_dim, d.group},
		    {d.up[0], d.up[1], d.up[2], e * d.up_rows + d.up_row + j, outs, d.in_dim, d.group}};
		runs.each<P::RUN>(e, [&](uint32_t n, const uint32_t* pair) {
			uint32_t rows[P::RUN];
			for (uint32_t i = 0; i < n; i++) rows[i] = pair[i] / d.top_k;
			const float* c = product(part, 2, rows, n);
			for (uint32_t i = 0; i < n; i++, c += TILE_OUTS) {
				float* to = d.h + size_t(pair[i]) * d.ffn + j;
				for (uint32_t o = 0; o < outs; o += LANES)
					store_n(to + o, silu(load(c + o)) * load(c + HALF + o), outs - o < LANES ? outs - o : LANES);
			}
		});
	}
}

struct Down {
	const void* const* w;  // three slots
	uint32_t in_dim, group, dim;
	float* d;
};

// d[pair,o] = down[e,o] . x[pair]. Task t: tile t % tiles of expert t / tiles.
template <class P>
static void down_tasks(const P& product, const ExpertRuns& runs, const Down& d, uint32_t begin, uint32_t end) {
	const uint32_t tiles = tiles_of(d.dim, TILE_OUTS);
	for (uint32_t t = begin; t < end && t / tiles < runs.experts; t++) {
		const size_t e = t / tiles, o = t % tiles * TILE_OUTS;
		const uint32_t outs = d.dim - o < TILE_OUTS ? d.dim - o : TILE_OUTS;
		const WeightRows part{d.w[0], d.w[1], d.w[2], e * d.dim + o, outs, d.in_dim, d.group};
		runs.each<P::RUN>(e, [&](uint32_t n, const uint32_t* pair) {
			const float* c = product(&part, 1, pair, n);
			for (uint32_t i = 0; i < n; i++)
				memcpy(d.d + size_t(pair[i]) * d.dim + o, c + i * TILE_OUTS, outs * sizeof(float));
		});
	}
}

}  // namespace LW_CPU_NAMESPACE
