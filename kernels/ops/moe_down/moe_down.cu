// y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), e = ids[r,k], k ascending, for affine weights.
#include "kernels/shared/cuda/experts.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F>
__global__ void __maxnreg__(DOWN_REGISTERS)
moe_down_format(const float* h, const uint32_t* ids, const float* weights, const uint8_t* experts_down, const uint8_t* experts_down_scales, const uint8_t* experts_down_biases,
                float* y, const __grid_constant__ moe_down_args a, unsigned long long* stamp) {
	down<F, false>(h, ids, weights, a.top_k, a.experts, nullptr, {experts_down, experts_down_scales, experts_down_biases}, {}, a.ffn, a.dim, y);
	stamp_end(stamp);
}

template <class F> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const moe_down_args*>(words);
	return down_shape<F, false>(a.rows, a.ffn, a.top_k, a.dim, out);
}

#define LW_VARIANT(v) RegisterOverride v("moe_down__" #v, reinterpret_cast<const void*>(moe_down_format<cuda_format::v>), 7, sizeof(moe_down_args), shape<cuda_format::v>);
LW_CUDA_FORMATS(LW_VARIANT)

}  // namespace
}  // namespace lw_cuda
