// d[p,o] = down[e,o] . h[p] for the pairs p of expert e, order[offsets[e] .. offsets[e + 1]], on warpgroup products. A
// block does 256 outputs for up to TOKENS pairs of one run: output tile blockIdx.x, so that neighbours share pairs, and
// slot blockIdx.y of expert_tile(). Pairs in no run stay as they are.
#include "kernels/shared/cuda/expert_runs.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

constexpr uint32_t OUTS = 256;

template <class F, int TOKENS>
__global__ void __launch_bounds__(GEMM_THREADS, blocks_of(TOKENS))
	moe_down_gemm(const float* h, const uint32_t* order, const uint32_t* offsets, const void* down, const void* down_scales, const void* down_biases, float* d,
                  const __grid_constant__ moe_down_gemm_args a, unsigned long long* stamp) {
	typedef Gemm<F, TOKENS, 2> Product;
	auto& m = gemm_shared<typename Product::Shared>();
	__shared__ uint32_t pair[TOKENS];
	Product product(m, a.ffn);
	const uint32_t o0 = blockIdx.x * OUTS;
	wait_for_previous();

	const ExpertTile t = expert_tile(offsets, min(a.experts_plus1 - 1, a.experts), a.pairs, blockIdx.y, TOKENS);
	if (t.pairs) {
		// Behind the last row of the expert the tile repeats it: what comes of that is not stored.
		product.set_weight(down, down_scales, down_biases, size_t(t.expert) * a.dim + min(o0 + threadIdx.x, a.dim - 1));
		list_pairs<TOKENS>(order, t, a.pairs, 1, pair, m.rows);
		__syncthreads();
		product.begin();
		with_columns<TOKENS>(t.pairs, [&](auto columns) {
			constexpr int N = decltype(columns)::count;
			float sums[2][N / 2];
			product.template run<N>(h, sums);
#pragma unroll
			for (int r = 0; r < 4; r++) {
				const uint32_t o = o0 + product.out_of(r);
#pragma unroll
				for (int i = 0; i < N / 4; i++) {
					const uint32_t p = pair[i / 2 * 8 + product.lane % 4 * 2 + i % 2];
					if (o < a.dim && p != NO_PAIR) d[size_t(p) * a.dim + o] = sums[r / 2][i / 2 * 4 + r % 2 * 2 + i % 2];
				}
			}
		});
	}
	stamp_end(stamp);
}

template <class F, int TOKENS> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const moe_down_gemm_args*>(words);
	return expert_launch<F, TOKENS>((a.dim + OUTS - 1) / OUTS, a.pairs, a.experts, out);
}

#define Y(v, tokens, ...) \
	const RegisterOverride moe_down_gemm_##v##_##tokens("moe_down_gemm__" #v, reinterpret_cast<const void*>(&moe_down_gemm<__VA_ARGS__, tokens>), 7, \
	                                                    sizeof(moe_down_gemm_args), &shape<__VA_ARGS__, tokens>);
#define X(v, ...) Y(v, SHORT_RUN, __VA_ARGS__) Y(v, LONG_RUN, __VA_ARGS__)
LW_GEMM_FORMATS(X)
#undef X
#undef Y

}  // namespace
}  // namespace lw_cuda
