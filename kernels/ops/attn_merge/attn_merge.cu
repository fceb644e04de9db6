// o[r,h] = sum_b exp(m_b - M) partial[r,h,b] / sum_b exp(m_b - M) l_b, where (m_b, l_b) = stats[r,h,b] and
// M = max_b m_b, over the blocks b that hold keys 0 .. pos + r, in order (kernels/shared/cuda/attention_merge.cuh).
// grid = (dims, row * qHeads + head).
#include "kernels/shared/cuda/attention_merge.cuh"

namespace lw_cuda {
namespace {

template <typename M>
__global__ void __launch_bounds__(M::THREADS, M::RESIDENT)
merge(const float* partial, const float* stats, const uint32_t* step, float* o, const __grid_constant__ attn_merge_args a, unsigned long long* stamp) {
	merge_blocks<M>(partial, stats, step, o, a, [](uint32_t, uint32_t, uint32_t) { return 1.0f; });
	stamp_end(stamp);
}

#define LW_MERGE(M) RegisterOverride of_##M("attn_merge", (const void*)merge<M>, 4, sizeof(attn_merge_args), merge_shape<M, attn_merge_args>, 1u << attn_merge_slot::step);
LW_MERGE(MergeFew) LW_MERGE(MergeMany)

}  // namespace
}  // namespace lw_cuda
