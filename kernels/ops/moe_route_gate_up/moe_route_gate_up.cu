// ids, weights = router_topk of logits[r, 0:experts]; n = rms_norm of x; h[r,k,j] = silu(gate[e, gate_row + j] . n[r]) *
// (up[e, up_row + j] . n[r]), e = ids[r,k]; h[r,top_k,j] with the shared expert, for affine weights.
#include "kernels/shared/cuda/experts.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F, uint32_t KEYS>
__global__ void __launch_bounds__(GATE_UP_THREADS)
moe_route_gate_up_format(const float* x, const float* w_norm, const float* logits, const uint8_t* gate, const uint8_t* gate_scales, const uint8_t* gate_biases,
                         const uint8_t* up, const uint8_t* up_scales, const uint8_t* up_biases, const uint8_t* shared_gate, const uint8_t* shared_gate_scales, const uint8_t* shared_gate_biases,
                         const uint8_t* shared_up, const uint8_t* shared_up_scales, const uint8_t* shared_up_biases, uint32_t* ids, float* weights, float* h, const __grid_constant__ moe_route_gate_up_args a, unsigned long long* stamp) {
	const ExpertWeight gates = {{gate, gate_scales, gate_biases}, {shared_gate, shared_gate_scales, shared_gate_biases}, a.gate_rows, a.gate_row};
	const ExpertWeight ups = {{up, up_scales, up_biases}, {shared_up, shared_up_scales, shared_up_biases}, a.up_rows, a.up_row};
	gate_up<F, KEYS>(x, w_norm, a.eps, a.in_dim, logits + size_t(blockIdx.y) * a.logit_stride, a.experts, a.top_k, gates, ups, a.ffn, ids, weights, h);
	stamp_end(stamp);
}

template <class F, uint32_t KEYS> bool shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const moe_route_gate_up_args*>(words);
	// The fewest keys that hold all experts.
	return a.experts <= experts_of(KEYS) && (KEYS == 8 || a.experts > experts_of(8)) && gate_up_shape<F, true>(a.rows, a.in_dim, a.slots, a.ffn, chip, out);
}

#define LW_KEYS(v, keys) RegisterOverride v##_##keys("moe_route_gate_up__" #v, reinterpret_cast<const void*>(moe_route_gate_up_format<cuda_format::v, keys>), 18, sizeof(moe_route_gate_up_args), shape<cuda_format::v, keys>);
#define LW_VARIANT(v) LW_CUDA_EXPERT_KEYS(LW_KEYS, v)
LW_CUDA_FORMATS(LW_VARIANT)

}  // namespace
}  // namespace lw_cuda
