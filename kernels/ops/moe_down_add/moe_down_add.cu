// x[r,d] += sum_k weights[r,k] * (down[e,d] . h[r,k]) + sigmoid(logits[r,gate_col]) * (shared_down[d] . h[r,top_k]),
// e = ids[r,k], k < top_k ascending, for affine weights.
#include "kernels/shared/cuda/experts.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F>
__global__ void __maxnreg__(DOWN_REGISTERS)
moe_down_add_format(const float* h, const uint32_t* ids, const float* weights, const float* logits, const uint8_t* experts_down, const uint8_t* experts_down_scales, const uint8_t* experts_down_biases,
                    const uint8_t* shared_down, const uint8_t* shared_down_scales, const uint8_t* shared_down_biases, float* x, const __grid_constant__ moe_down_add_args a, unsigned long long* stamp) {
	down<F, true>(h, ids, weights, a.top_k, a.experts, logits + size_t(blockIdx.y) * a.logit_stride + a.gate_col, {experts_down, experts_down_scales, experts_down_biases},
	              {shared_down, shared_down_scales, shared_down_biases}, a.ffn, a.dim, x);
	stamp_end(stamp);
}

template <class F> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const moe_down_add_args*>(words);
	return down_shape<F, true>(a.rows, a.ffn, a.top_k, a.dim, out);
}

#define LW_VARIANT(v) RegisterOverride v("moe_down_add__" #v, reinterpret_cast<const void*>(moe_down_add_format<cuda_format::v>), 11, sizeof(moe_down_add_args), shape<cuda_format::v>);
LW_CUDA_FORMATS(LW_VARIANT)

}  // namespace
}  // namespace lw_cuda
