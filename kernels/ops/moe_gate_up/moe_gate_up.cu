// h[r,k,j] = silu(gate[e, gate_row + j] . x[r]) * (up[e, up_row + j] . x[r]), e = ids[r,k], for affine weights.
#include "kernels/shared/cuda/experts.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F>
__global__ void __launch_bounds__(GATE_UP_THREADS)
moe_gate_up_format(const float* x, uint32_t* ids, const uint8_t* gate, const uint8_t* gate_scales, const uint8_t* gate_biases,
                   const uint8_t* up, const uint8_t* up_scales, const uint8_t* up_biases, float* h, const __grid_constant__ moe_gate_up_args a, unsigned long long* stamp) {
	const ExpertWeight gates = {{gate, gate_scales, gate_biases}, {}, a.gate_rows, a.gate_row}, ups = {{up, up_scales, up_biases}, {}, a.up_rows, a.up_row};
	gate_up<F, 0>(x, nullptr, 0.0f, a.in_dim, nullptr, a.experts, a.top_k, gates, ups, a.ffn, ids, nullptr, h);
	stamp_end(stamp);
}

template <class F> bool shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const moe_gate_up_args*>(words);
	return gate_up_shape<F, false>(a.rows, a.in_dim, a.top_k, a.ffn, chip, out);
}

#define LW_VARIANT(v) RegisterOverride v("moe_gate_up__" #v, reinterpret_cast<const void*>(moe_gate_up_format<cuda_format::v>), 9, sizeof(moe_gate_up_args), shape<cuda_format::v>);
LW_CUDA_FORMATS(LW_VARIANT)

}  // namespace
}  // namespace lw_cuda
