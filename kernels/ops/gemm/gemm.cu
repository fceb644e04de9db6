// y[r, y_col + o] = sum_i x[r,i] * w[o,i], o over the rows of w0 | w1 | w2 | w3, on warpgroup products. A block does
// 128 * TILES outputs of 64 rows of x: row tile blockIdx.x, so that neighbours share weights, and output tile blockIdx.y,
// counted over the concatenation. Other columns of y stay as they are.
#include "kernels/shared/cuda/gemm.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

constexpr int TOKENS = 64;

template <class F, int TILES>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
	gemm(const float* x, const void* w0, const void* w0_scales, const void* w0_biases, const void* w1, const void* w1_scales, const void* w1_biases, const void* w2,
         const void* w2_scales, const void* w2_biases, const void* w3, const void* w3_scales, const void* w3_biases, float* y, const __grid_constant__ gemm_args a,
         unsigned long long* stamp) {
	typedef Gemm<F, TOKENS, TILES> Product;
	auto& m = gemm_shared<typename Product::Shared>();
	Product product(m, a.in_dim);
	const uint32_t r0 = blockIdx.x * TOKENS, o0 = blockIdx.y * Product::OUTS;
	const uint32_t outs = min(a.out0 + a.out1 + a.out2 + a.out3 - o0, Product::OUTS), rows = min(a.rows - r0, uint32_t(TOKENS));
	// Behind the last row of the weights or of x the tile repeats it: what comes of that is not stored.
	if (threadIdx.x < Product::OUTS) {
		uint32_t row = o0 + min(threadIdx.x, outs - 1);
		if (row < a.out0) product.set_weight(w0, w0_scales, w0_biases, row);
		else if ((row -= a.out0) < a.out1) product.set_weight(w1, w1_scales, w1_biases, row);
		else if ((row -= a.out1) < a.out2) product.set_weight(w2, w2_scales, w2_biases, row);
		else product.set_weight(w3, w3_scales, w3_biases, row - a.out2);
	}
	if (threadIdx.x < TOKENS) m.rows[threadIdx.x] = r0 + min(threadIdx.x, rows - 1);
	__syncthreads();
	product.begin();
	wait_for_previous();

	float sums[TILES][TOKENS / 2];
	product.template run<TOKENS>(x, sums);
#pragma unroll
	for (int i = 0; i < 2 * TILES; i++) {
		const uint32_t o = product.out_of(i);
#pragma unroll
		for (int j = 0; j < TOKENS / 4; j++) {
			const uint32_t r = j / 2 * 8 + product.lane % 4 * 2 + j % 2;
			if (o < outs && r < rows) y[size_t(r0 + r) * a.y_stride + a.y_col + o0 + o] = sums[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2];
		}
	}
	stamp_end(stamp);
}

// Where tiles of 256 outputs would leave multiprocessors without work, a block does 128.
template <class F, int TILES> bool shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const gemm_args*>(words);
	const uint32_t row_tiles = (a.rows + TOKENS - 1) / TOKENS, total = a.out0 + a.out1 + a.out2 + a.out3;
	const bool narrow = row_tiles * ((total + 255) / 256) < chip.multiprocessors;
	*out = {{row_tiles, (total + 128 * TILES - 1) / (128 * TILES), 1}, GEMM_THREADS, gemm_bytes<GemmShared<F, TOKENS, TILES>>()};
	return has_warpgroups() && TILES == (narrow ? 1 : 2) && row_tiles && total && out->grid[1] < 65536;
}

#define Y(v, tiles, ...) \
	const RegisterOverride gemm_##v##_##tiles("gemm__" #v, reinterpret_cast<const void*>(&gemm<__VA_ARGS__, tiles>), 14, sizeof(gemm_args), &shape<__VA_ARGS__, tiles>);
#define X(v, ...) Y(v, 1, __VA_ARGS__) Y(v, 2, __VA_ARGS__)
LW_GEMM_FORMATS(X)
#undef X
#undef Y

}  // namespace
}  // namespace lw_cuda
