// c[i,o] = sum_k x[row i, k] * w[o,k] in f32 for one tile of outputs and any list of rows. Owns the blocking and the
// micro-kernel; which rows and outputs make a task is in gemm_tasks.h.
// A weight tile is dequantised once for up to GEMM_RUN rows. Every sum goes through k in order inside a block
// of GEMM_DEPTH and then over the blocks, whatever the rows beside it.
#pragma once
#include "kernels/shared/weight_tile.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int GEMM_VECS = 4;  // 32 vector registers: 6 rows x 4 vectors of sums
#else
constexpr int GEMM_VECS = 2;
#endif
constexpr int GEMM_ROWS = 6;
constexpr uint32_t GEMM_DEPTH = 256;
constexpr uint32_t GEMM_RUN = 512;

struct alignas(64) GemmScratch {
	float w[GEMM_DEPTH * TILE_OUTS];  // [outs / (VECS * LANES)][k][VECS * LANES]
	float c[GEMM_RUN * TILE_OUTS];
};
static_assert(sizeof(GemmScratch) <= LW_THREAD_SCRATCH_BYTES, "scratch");

// c[r,o] += sum over n steps of x[r][k] * w[k,o] (n >= 1), for R rows and VECS * LANES outputs.
template <int R> static void gemm_block(const float* const* x, const float* w, uint32_t n, float* c) {
	vf sums[R][GEMM_VECS];
	for (int r = 0; r < R; r++)
		for (int v = 0; v < GEMM_VECS; v++) sums[r][v] = zero();
	const float* row[R];
	for (int r = 0; r < R; r++) row[r] = x[r];
	size_t k = 0;
	do {
		vf b[GEMM_VECS];
		for (int v = 0; v < GEMM_VECS; v++) b[v] = load(w + v * LANES);
		for (int r = 0; r < R; r++) {
			const vf a = splat(row[r][k]);
			for (int v = 0; v < GEMM_VECS; v++) sums[r][v] = fma(a, b[v], sums[r][v]);
		}
		w += GEMM_VECS * LANES;
	} while (++k < n);
	for (int r = 0; r < R; r++) {
		for (int v = 0; v < GEMM_VECS; v++) {
			float* to = c + r * TILE_OUTS + v * LANES;
			store(to, load(to) + sums[r][v]);
		}
	}
}

// Product of f32 activations: x is [.., stride].
struct GemmF32 {
	static constexpr uint32_t RUN = GEMM_RUN;
	UnpackF32 unpack;
	const float* x;
	size_t stride;
	GemmScratch& s;

	// c[i * TILE_OUTS + o] for the n <= RUN rows in `rows`. One part fills the tile from output 0;
	// of two parts each has half of it.
	const float* operator()(const WeightRows* part, uint32_t parts, const uint32_t* rows, uint32_t n) const {
		static constexpr decltype(&gemm_block<1>) blocks[GEMM_ROWS] = {
		    gemm_block<1>, gemm_block<2>, gemm_block<3>, gemm_block<4>, gemm_block<5>, gemm_block<6>};
		constexpr uint32_t NR = GEMM_VECS * LANES, PANELS = TILE_OUTS / LANES;
		const uint32_t outs = parts == 1 ? (part[0].count + NR - 1) / NR * NR : TILE_OUTS;
		const uint32_t in_dim = part[0].in_dim, pieces = (n + GEMM_ROWS - 1) / GEMM_ROWS;
		memset(s.c, 0, size_t(n) * TILE_OUTS * sizeof(float));
		for (uint32_t k0 = 0; k0 < in_dim; k0 += GEMM_DEPTH) {
			const uint32_t depth = in_dim - k0 < GEMM_DEPTH ? in_dim - k0 : GEMM_DEPTH;
			for (uint32_t p = 0; p < outs / LANES; p++) {
				const uint32_t at = p / GEMM_VECS * GEMM_VECS * GEMM_DEPTH + p % GEMM_VECS;
				unpack(part[p * parts / PANELS], p % (PANELS / parts), k0, depth, s.w + at * LANES, NR);
			}
			for (uint32_t i = 0, piece = 0; piece < pieces; piece++) {
				const uint32_t some = (n - i + pieces - piece - 1) / (pieces - piece);
				const float* row[GEMM_ROWS];
				for (uint32_t r = 0; r < some; r++) row[r] = x + rows[i + r] * stride + k0;
				// The next rows come nearer while these are multiplied.
				for (uint32_t r = i + some; r < n && r < i + 2 * some; r++)
					for (uint32_t k = 0; k < depth; k += 16) __builtin_prefetch(x + rows[r] * stride + k0 + k);
				for (uint32_t o = 0; o < outs; o += NR)
					blocks[some - 1](row, s.w + size_t(o) * GEMM_DEPTH, depth, s.c + i * TILE_OUTS + o);
				i += some;
			}
		}
		return s.c;
	}
};

}  // namespace LW_CPU_NAMESPACE
