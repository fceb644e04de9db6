// What a task of the expert ops for up to 16 rows computes, exact and int8. A pair is one of the experts of one row;
// an expert number outside is no expert. Each pair has weights of its own, so a dot takes one activation.
#pragma once
#include "kernels/shared/weight_rows.h"

namespace LW_CPU_NAMESPACE {

// The gate rows and up rows that a pair reads: gate[e, gate_row + j] and up[e, up_row + j], e = ids[pair].
struct IndexedUpRows {
	WeightRow gate, up;
	const uint32_t* ids;
	uint32_t experts, gate_rows, up_rows, gate_row, up_row;

	bool has(uint32_t pair) const { return ids[pair] < experts; }
	template <class D> WeightRow gate_at(const D& d, uint32_t pair, uint32_t j) const {
		return gate.at(d, size_t(ids[pair]) * gate_rows + gate_row + j);
	}
	template <class D> WeightRow up_at(const D& d, uint32_t pair, uint32_t j) const {
		return up.at(d, size_t(ids[pair]) * up_rows + up_row + j);
	}
};

struct ExpertUpSizes {
	uint32_t rows, row_pairs, ffn;
};

// h[pair,j] = silu(gate row j of the pair . x) * (up row j . x), x the activation of row pair / row_pairs; zeros for a
// pair that `w` does not have. It is asked about pairs of a row when their activation was, and about the next pair.
// Task t: ROWS_PER_TASK / 2 of j for pair t / tiles.
template <class D, class UpRows, class Activation>
static void expert_gate_up(const D& d, const ExpertUpSizes& s, const UpRows& w, Activation activation, float* h, uint32_t begin,
                           uint32_t end, void* scratch) {
	constexpr uint32_t TILE = ROWS_PER_TASK / 2;
	const uint32_t tiles = (s.ffn + TILE - 1) / TILE, pairs = s.rows * s.row_pairs;
	uint32_t prepared = UINT32_MAX;
	for (uint64_t t = begin; t < end && t < uint64_t(pairs) * tiles; t++) {
		const uint32_t pair = uint32_t(t / tiles), j0 = uint32_t(t % tiles) * TILE, r = pair / s.row_pairs;
		const uint32_t n = s.ffn - j0 < TILE ? s.ffn - j0 : TILE;
		float* to = h + size_t(pair) * s.ffn + j0;
		if (r != prepared) d.prepare(activation(r), scratch), prepared = r;
		if (!w.has(pair)) {
			memset(to, 0, n * sizeof(float));
			continue;
		}
		const uint32_t next_pair = uint32_t((t + 1) / tiles), next_j = uint32_t((t + 1) % tiles) * TILE;
		const bool more = next_pair < pairs && w.has(next_pair);
		float product[2][TILE] = {};
		// Gate rows, then up rows.
		multiply_rows<1>(
		    d, static_cast<const char*>(scratch), 1, 0, 2 * n,
		    [&](uint32_t o) { return o < n ? w.gate_at(d, pair, j0 + o) : w.up_at(d, pair, j0 + o - n); },
		    more ? w.gate_at(d, next_pair, next_j) : w.gate_at(d, pair, j0), [&](uint32_t o, uint32_t, float v) { product[o < n ? 0 : 1][o < n ? o : o - n] = v; });
		for (uint32_t j = 0; j < n; j += LANES)
			store_n(to + j, silu(load(product[0] + j)) * load(product[1] + j), int(n - j < LANES ? n - j : LANES));
	}
}

struct ExpertDownSizes {
	uint32_t rows, top_k, experts, dim;
};

// y[r,o] = sum_k weights[r,k] * (down[e,o] . h[r,k]), e = ids[r,k], k ascending. Task: ROWS_PER_TASK of o, all rows.
template <class D, class Activation>
static void expert_down(const D& d, const ExpertDownSizes& s, WeightRow down, const uint32_t* ids, const float* weights,
                        Activation activation, float* y, uint32_t begin, uint32_t end, void* scratch) {
	const uint64_t o0 = uint64_t(begin) * ROWS_PER_TASK, behind = uint64_t(end) * ROWS_PER_TASK;
	if (o0 >= s.dim || begin >= end) return;
	const uint32_t o1 = uint32_t(behind < s.dim ? behind : s.dim), pairs = s.rows * s.top_k;
	const auto row = [&](uint32_t pair, uint32_t o) { return down.at(d, size_t(ids[pair]) * s.dim + o); };
	for (uint32_t pair = 0; pair < pairs; pair++) {
		float* to = y + size_t(pair / s.top_k) * s.dim;
		if (pair % s.top_k == 0) memset(to + o0, 0, (o1 - o0) * sizeof(float));
		if (ids[pair] >= s.experts) continue;
		d.prepare(activation(pair), scratch);
		const uint32_t next = pair + 1 < pairs && ids[pair + 1] < s.experts ? pair + 1 : pair;
		const float weight = weights[pair];
		multiply_rows<1>(
		    d, static_cast<const char*>(scratch), 1, uint32_t(o0), o1, [&](uint32_t o) { return row(pair, o); },
		    row(next, uint32_t(o0)), [&](uint32_t o, uint32_t, float v) { to[o] += weight * v; });
	}
}

}  // namespace LW_CPU_NAMESPACE
