// h[p,j] = silu(gate[e, gate_row + j] . x[p / top_k]) * (up[e, up_row + j] . x[p / top_k]) for the pairs p of expert e,
// order[offsets[e] .. offsets[e + 1]], on warpgroup products. A block does 128 of j for up to TOKENS pairs of one run:
// tile blockIdx.x of j, so that neighbours share pairs, and slot blockIdx.y of expert_tile(). Of a warpgroup's two tiles
// one is of gate and the other the same rows of up, so that each thread holds a product's two factors.
// Pairs in no run stay as they are.
#include "kernels/shared/cuda/expert_runs.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

constexpr uint32_t TILE_J = 128;

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

template <class F, int TOKENS>
__global__ void __launch_bounds__(GEMM_THREADS, blocks_of(TOKENS))
	moe_gate_up_gemm(const float* x, const uint32_t* order, const uint32_t* offsets, const void* gate, const void* gate_scales, const void* gate_biases, const void* up,
                     const void* up_scales, const void* up_biases, float* h, const __grid_constant__ moe_gate_up_gemm_args a, unsigned long long* stamp) {
	typedef Gemm<F, TOKENS, 2> Product;
	auto& m = gemm_shared<typename Product::Shared>();
	__shared__ uint32_t pair[TOKENS];
	Product product(m, a.in_dim);
	const uint32_t j0 = blockIdx.x * TILE_J;
	wait_for_previous();

	const ExpertTile t = expert_tile(offsets, min(a.experts_plus1 - 1, a.experts), a.pairs, blockIdx.y, TOKENS);
	if (t.pairs) {
		// Behind the last row of the expert the tile repeats it: what comes of that is not stored.
		const uint32_t j = min(j0 + threadIdx.x / 128 * 64 + threadIdx.x % 64, a.ffn - 1);
		if (threadIdx.x % 128 < 64) product.set_weight(gate, gate_scales, gate_biases, size_t(t.expert) * a.gate_rows + a.gate_row + j);
		else product.set_weight(up, up_scales, up_biases, size_t(t.expert) * a.up_rows + a.up_row + j);
		list_pairs<TOKENS>(order, t, a.pairs, a.top_k, pair, m.rows);
		__syncthreads();
		product.begin();
		with_columns<TOKENS>(t.pairs, [&](auto columns) {
			constexpr int N = decltype(columns)::count;
			float sums[2][N / 2];
			product.template run<N>(x, sums);
#pragma unroll
			for (int r = 0; r < 2; r++) {
				const uint32_t o = j0 + product.warp / 4 * 64 + product.warp % 4 * 16 + r * 8 + product.lane / 4;
#pragma unroll
				for (int i = 0; i < N / 4; i++) {
					const uint32_t p = pair[i / 2 * 8 + product.lane % 4 * 2 + i % 2];
					const int at = i / 2 * 4 + r * 2 + i % 2;
					if (o < a.ffn && p != NO_PAIR) h[size_t(p) * a.ffn + o] = silu(sums[0][at]) * sums[1][at];
				}
			}
		});
	}
	stamp_end(stamp);
}

template <class F, int TOKENS> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const moe_gate_up_gemm_args*>(words);
	return expert_launch<F, TOKENS>((a.ffn + TILE_J - 1) / TILE_J, a.pairs, a.experts, out);
}

#define Y(v, tokens, ...) \
	const RegisterOverride moe_gate_up_gemm_##v##_##tokens("moe_gate_up_gemm__" #v, reinterpret_cast<const void*>(&moe_gate_up_gemm<__VA_ARGS__, tokens>), 10, \
	                                                       sizeof(moe_gate_up_gemm_args), &shape<__VA_ARGS__, tokens>);
#define X(v, ...) Y(v, SHORT_RUN, __VA_ARGS__) Y(v, LONG_RUN, __VA_ARGS__)
LW_GEMM_FORMATS(X)
#undef X
#undef Y

}  // namespace
}  // namespace lw_cuda
