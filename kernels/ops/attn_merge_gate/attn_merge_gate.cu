// o as attn_merge makes it, gated as attn_gate does: o[r,h,d] * sigmoid(qkv[r, h * 2 * headDim + headDim + d])
// (kernels/shared/cuda/attention_merge.cuh). grid = (dims, row * qHeads + head).
#include "kernels/shared/cuda/attention_merge.cuh"

namespace lw_cuda {
namespace {

template <typename M>
__global__ void __launch_bounds__(M::THREADS, M::RESIDENT)
merge_gate(const float* partial, const float* stats, const uint32_t* step, const float* qkv, float* o, const __grid_constant__ attn_merge_gate_args a, unsigned long long* stamp) {
	merge_blocks<M>(partial, stats, step, o, a, [&](uint32_t r, uint32_t h, uint32_t d) { return sigmoid(__ldcg(qkv + size_t(r) * a.qkv_width + (2 * h + 1) * a.head_dim + d)); });
	stamp_end(stamp);
}

#define LW_MERGE(M) RegisterOverride of_##M("attn_merge_gate", (const void*)merge_gate<M>, 5, sizeof(attn_merge_gate_args), merge_shape<M, attn_merge_gate_args>, 1u << attn_merge_gate_slot::step | 1u << attn_merge_gate_slot::qkv);
LW_MERGE(MergeFew) LW_MERGE(MergeMany)

}  // namespace
}  // namespace lw_cuda
