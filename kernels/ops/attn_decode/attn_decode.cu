// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head, for f16 caches
// (kernels/shared/cuda/attention_decode.cuh). grid = ((kv * head_tiles + tile) * SLICES + slice, rows).
#include "kernels/shared/cuda/attention_decode.cuh"

namespace lw_cuda {
namespace {

template <uint32_t D>
__global__ void LW_CLUSTER_OF(SLICES) __launch_bounds__(Decode<D>::THREADS)
decode(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, float* o, const __grid_constant__ attn_decode_args a, unsigned long long* stamp) {
#if LW_CLUSTERS
	decode_heads<D>(q, k_cache, v_cache, step, o, a, NoGate{});
#endif
	stamp_end(stamp);
}

template <uint32_t D> bool shape(const void* words, const Chip&, Launch* out) { return decode_shape<D, attn_decode_args>((const void*)decode<D>, words, out); }
constexpr Appended CACHES = {1u << attn_decode_slot::k_cache | 1u << attn_decode_slot::v_cache, attn_decode_slot::step};
#define LW_DECODE(D) RegisterOverride decode_h##D("attn_decode__f16_h" #D, (const void*)decode<D>, 5, sizeof(attn_decode_args), shape<D>, 1u << attn_decode_slot::step, CACHES);
LW_DECODE(64) LW_DECODE(128) LW_DECODE(256) LW_DECODE(512)

}  // namespace
}  // namespace lw_cuda
