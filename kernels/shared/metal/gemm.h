// What the matrix products share: sums over k of x[r,k] * w[o,k] for a tile of up to GEMM_TILE rows and as many
// outputs. A threadgroup goes through k in slabs of GEMM_DEPTH. It brings the slab of its rows and of its weight rows
// to threadgroup memory, the weights dequantised to f32, and multiplies them as 8x8 matrices: each of four simdgroups
// takes all rows and 16 of the outputs, so a run of few rows leaves out the same work in each of them.
// Sums of 16 products are taken apart and added to the totals: rounding errors grow with in_dim / 16, not in_dim.
// Registers of a thread: 32 of totals, 16 of matrices in work.
#pragma once
#include "kernels/shared/metal/formats.h"

constant constexpr uint GEMM_THREADS = 128;
constant constexpr uint GEMM_TILE = 64;
constant constexpr uint GEMM_DEPTH = 32;
// Steps of k of one weight row that a thread stages.
constant constexpr uint GEMM_SHARE = GEMM_DEPTH * GEMM_TILE / GEMM_THREADS;
// Floats from row to row in threadgroup memory: whole float4, and rows side by side begin in different banks.
constant constexpr uint GEMM_LINE = GEMM_DEPTH + 4;
constant constexpr uint GEMM_OUT_LINE = GEMM_TILE + 4;
// Threadgroup memory in float4: slabs of x and w, 18432 bytes; behind the last slab the tile of sums.
constant constexpr uint GEMM_MEMORY = 2 * GEMM_TILE * GEMM_LINE / 4;
static_assert(GEMM_TILE * GEMM_OUT_LINE <= 4 * GEMM_MEMORY, "the sums lie where the slabs were");
static_assert(LW_THREADS_gemm == GEMM_THREADS, "the launch of op.ts");
static_assert(LW_THREADS_moe_gate_up_gemm == GEMM_THREADS, "the launch of op.ts");
static_assert(LW_THREADS_moe_down_gemm == GEMM_THREADS, "the launch of op.ts");
static_assert(GEMM_SHARE == 16, "no share of a thread crosses a group of codes");

// A weight and one of its rows: the one that this thread stages.
template <typename F>
struct GemmWeight {
	device const uint* values;
	device const typename F::type* scales;
	device const typename F::type* biases;
	size_t row;
};

// Matrices of totals of one simdgroup: number 2 * i + o has the i-th eight of rows and the o-th of its two eights of
// outputs.
constant constexpr uint GEMM_SUMS = 2 * GEMM_TILE / 8;

// slab[i][k] = x[rows[i], k0 + k] for i < n, zeros behind in_dim.
inline void stage_rows(device const float* x, threadgroup const uint* rows, uint n, uint in_dim, uint k0,
                       threadgroup float* slab, uint tid) {
	if (in_dim % 4 == 0) {
		constexpr uint ACROSS = GEMM_DEPTH / 4, STEPS = GEMM_TILE * ACROSS / GEMM_THREADS;
		const uint k = tid % ACROSS * 4, first = tid / ACROSS;
		float4 v[STEPS];
		LW_UNROLL
		for (uint s = 0; s < STEPS; s++) {
			const uint i = first + s * (GEMM_THREADS / ACROSS);
			v[s] = float4(0.0f);
			if (i < n && k0 + k < in_dim) v[s] = *(device const float4*)(x + size_t(rows[i]) * in_dim + k0 + k);
		}
		LW_UNROLL
		for (uint s = 0; s < STEPS; s++) {
			const uint i = first + s * (GEMM_THREADS / ACROSS);
			if (i < n) *(threadgroup float4*)(slab + i * GEMM_LINE + k) = v[s];
		}
	} else {
		const uint k = tid % GEMM_DEPTH;
		for (uint i = tid / GEMM_DEPTH; i < n; i += GEMM_THREADS / GEMM_DEPTH)
			slab[i * GEMM_LINE + k] = k0 + k < in_dim ? x[size_t(rows[i]) * in_dim + k0 + k] : 0.0f;
	}
}

// Affine codes of one word as floats.
template <uint BITS>
inline void stage_word(uint word, float scale, float bias, threadgroup float* to) {
	constexpr uint MASK = (1u << BITS) - 1;
	LW_UNROLL
	for (uint i = 0; i < 32 / BITS; i += 4) {
		float4 v;
		v.x = fma(scale, float(word >> (BITS * i) & MASK), bias);
		v.y = fma(scale, float(word >> (BITS * (i + 1)) & MASK), bias);
		v.z = fma(scale, float(word >> (BITS * (i + 2)) & MASK), bias);
		v.w = fma(scale, float(word >> (BITS * (i + 3)) & MASK), bias);
		*(threadgroup float4*)(to + i) = v;
	}
}

// line[k] = w[row, k0 + k], zeros behind in_dim. Two threads do it, `part` 0 and 1. Affine: half of the line each.
template <uint BITS, uint GROUP, typename S>
inline void stage_weight(WeightFormat<BITS, GROUP, S>, threadgroup float* line,
                         thread const GemmWeight<WeightFormat<BITS, GROUP, S>>& w, uint in_dim, uint k0, uint part) {
	threadgroup float* to = line + part * GEMM_SHARE;
	const uint k = k0 + part * GEMM_SHARE;
	if (k < in_dim) {
		const size_t at = w.row * in_dim + k;
		const float scale = float(w.scales[at / GROUP]), bias = float(w.biases[at / GROUP]);
		device const uint2* words = (device const uint2*)(w.values + at / (32 / BITS));
		uint2 pair[BITS / 4];
		LW_UNROLL
		for (uint i = 0; i < BITS / 4; i++) pair[i] = words[i];
		LW_UNROLL
		for (uint i = 0; i < BITS / 4; i++) {
			stage_word<BITS>(pair[i].x, scale, bias, to + i * (64 / BITS));
			stage_word<BITS>(pair[i].y, scale, bias, to + i * (64 / BITS) + 32 / BITS);
		}
	} else {
		LW_UNROLL
		for (uint i = 0; i < GEMM_SHARE; i += 4) *(threadgroup float4*)(to + i) = float4(0.0f);
	}
}

// Dense: units of 8 bytes by turns, so that the two read side by side.
template <typename T>
inline void stage_weight(WeightFormat<0, 1, T>, threadgroup float* line, thread const GemmWeight<WeightFormat<0, 1, T>>& w,
                         uint in_dim, uint k0, uint part) {
	constexpr uint UNIT = 8 / sizeof(T);
	device const T* from = (device const T*)w.values + w.row * in_dim + k0;
	if (in_dim % UNIT == 0) {
		LW_UNROLL
		for (uint s = 0; s < GEMM_SHARE / UNIT; s++) {
			const uint k = (2 * s + part) * UNIT;
			vec<T, UNIT> v = vec<T, UNIT>(T(0.0f));
			if (k0 + k < in_dim) v = *(device const vec<T, UNIT>*)(from + k);
			LW_UNROLL
			for (uint i = 0; i < UNIT; i++) line[k + i] = float(v[i]);
		}
	} else {
		for (uint k = part; k < GEMM_DEPTH; k += 2) line[k] = k0 + k < in_dim ? float(from[k]) : 0.0f;
	}
}

// Adds the products of one slab for the first `eights` * 8 rows; w0, w1: slab rows of the two eights of outputs.
inline void multiply_slab(thread simdgroup_float8x8* sums, threadgroup const float* x, threadgroup const float* w0,
                          threadgroup const float* w1, uint eights) {
	for (uint k = 0; k < GEMM_DEPTH; k += 16) {
		simdgroup_float8x8 w[2][2];
		LW_UNROLL
		for (uint s = 0; s < 2; s++) {
			simdgroup_load(w[s][0], w0 + k + 8 * s, GEMM_LINE, ulong2(0, 0), true);
			simdgroup_load(w[s][1], w1 + k + 8 * s, GEMM_LINE, ulong2(0, 0), true);
		}
		LW_UNROLL
		for (uint i = 0; i < GEMM_TILE / 8; i++) {
			if (i < eights) {
				simdgroup_float8x8 rows[2];
				simdgroup_load(rows[0], x + i * 8 * GEMM_LINE + k, GEMM_LINE);
				simdgroup_load(rows[1], x + i * 8 * GEMM_LINE + k + 8, GEMM_LINE);
				LW_UNROLL
				for (uint o = 0; o < 2; o++) {
					simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
					simdgroup_multiply_accumulate(sum, rows[0], w[0][o], sum);
					simdgroup_multiply_accumulate(sum, rows[1], w[1][o], sum);
					sums[2 * i + o].thread_elements()[0] += sum.thread_elements()[0];
					sums[2 * i + o].thread_elements()[1] += sum.thread_elements()[1];
				}
			}
		}
	}
}

// Sums of x[rows[i]] . w[o] for i < n. Thread `tid` stages row w.row as row tid / 2 of the slab; this simdgroup's
// outputs are the eights of slab rows from o0 and o1 on. All threads call it, behind a barrier that shows `rows`, which
// holds a row of x up to the next multiple of 8; it ends with a barrier.
template <typename F>
inline void multiply_tile(thread simdgroup_float8x8* sums, device const float* x, threadgroup const uint* rows, uint n,
                          thread const GemmWeight<F>& w, uint in_dim, uint o0, uint o1, threadgroup float* memory, uint tid) {
	threadgroup float* x_slab = memory;
	threadgroup float* w_slab = memory + GEMM_TILE * GEMM_LINE;
	const uint eights = (n + 7) / 8;
	LW_UNROLL
	for (uint i = 0; i < GEMM_SUMS; i++) {
		sums[i].thread_elements()[0] = 0.0f;
		sums[i].thread_elements()[1] = 0.0f;
	}
	for (uint k0 = 0; k0 < in_dim; k0 += GEMM_DEPTH) {
		stage_rows(x, rows, eights * 8, in_dim, k0, x_slab, tid);
		stage_weight(F(), w_slab + tid / 2 * GEMM_LINE, w, in_dim, k0, tid % 2);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		multiply_slab(sums, x_slab, w_slab + o0 * GEMM_LINE, w_slab + o1 * GEMM_LINE, eights);
		threadgroup_barrier(mem_flags::mem_threadgroup);
	}
}

// memory[i * GEMM_OUT_LINE + o] = sums of row i < n, this simdgroup's outputs from o0 on: one eight or both.
template <uint EIGHTS>
inline void store_sums(thread const simdgroup_float8x8* sums, uint n, uint o0, threadgroup float* memory) {
	LW_UNROLL
	for (uint i = 0; i < GEMM_TILE / 8; i++) {
		if (i < (n + 7) / 8) {
			LW_UNROLL
			for (uint o = 0; o < EIGHTS; o++)
				simdgroup_store(sums[2 * i + o], memory + i * 8 * GEMM_OUT_LINE + o0 + 8 * o, GEMM_OUT_LINE);
		}
	}
}

// ---- runs of pairs sorted by expert ----
constant constexpr uint NO_PAIR = 0xffffffffu;

// What slot `slot` of the grid does: n pairs order[first .. first + n] of one expert; returns n, 0 for nothing. Expert e
// has the slots from offsets[e] / GEMM_TILE + e on: at least as many as its run has tiles, and all experts have at most
// pairs / GEMM_TILE + experts. The last expert that begins at the slot or before is found by 32 probes at a time.
// Nothing in `offsets` is trusted.
inline uint expert_tile(device const uint* offsets, uint experts, uint pairs, uint slot, uint lane, thread uint& expert,
                        thread uint& first) {
	uint e = 0;
	for (uint left = experts; left > 1;) {
		const uint stride = (left + SIMD - 1) / SIMD, probe = lane * stride;
		const bool begun = probe < left && offsets[e + probe] / GEMM_TILE + e + probe <= slot;
		const uint steps = max(popcount(uint(simd_vote::vote_t(simd_ballot(begun)))), 1u) - 1;
		e += steps * stride;
		left = min(stride, left - steps * stride);
	}
	if (experts == 0) return 0;
	const uint begin = offsets[e], end = offsets[e + 1], before = begin / GEMM_TILE + e;
	if (end > pairs || begin >= end || slot < before) return 0;
	if (slot - before >= (end - begin + GEMM_TILE - 1) / GEMM_TILE) return 0;
	expert = e;
	first = begin + (slot - before) * GEMM_TILE;
	return min(end - first, GEMM_TILE);
}

// Of n pairs from `first` on: the pair, and the row of x that it reads, pair / top_k. NO_PAIR and row 0 behind them
// and for what is no pair.
inline void list_pairs(device const uint* order, uint first, uint n, uint pairs, uint top_k, threadgroup uint* pair,
                       threadgroup uint* row, uint tid) {
	if (tid < GEMM_TILE) {
		const uint p = tid < n ? order[first + tid] : NO_PAIR;
		pair[tid] = p < pairs ? p : NO_PAIR;
		row[tid] = p < pairs ? p / top_k : 0;
	}
}
