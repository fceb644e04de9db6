// o as attn_decode makes it, gated as attn_gate does: o[r,h,d] * sigmoid(qkv[r, h * 2 * headDim + headDim + d]), for f16
// caches (kernels/shared/cuda/attention_decode.cuh). grid = ((kv * head_tiles + tile) * SLICES + slice, rows).
#include "kernels/shared/cuda/attention_decode.cuh"

namespace lw_cuda {
namespace {

template <uint32_t D> struct Gate {
	const float* qkv;
	uint32_t width;

	__device__ float of(uint32_t r, uint32_t h, uint32_t d) const { return __ldcg(qkv + size_t(r) * width + (2 * h + 1) * D + d); }
	__device__ float factor(float x) const { return sigmoid(x); }
};

template <uint32_t D>
__global__ void LW_CLUSTER_OF(SLICES) __launch_bounds__(Decode<D>::THREADS)
decode_gate(const float* q, const uint8_t* k_cache, const uint8_t* v_cache, const uint32_t* step, const float* qkv, float* o, const __grid_constant__ attn_decode_gate_args a, unsigned long long* stamp) {
#if LW_CLUSTERS
	decode_heads<D>(q, k_cache, v_cache, step, o, a, Gate<D>{qkv, a.qkv_width});
#endif
	stamp_end(stamp);
}

template <uint32_t D> bool shape(const void* words, const Chip&, Launch* out) { return decode_shape<D, attn_decode_gate_args>((const void*)decode_gate<D>, words, out); }
constexpr Appended CACHES = {1u << attn_decode_gate_slot::k_cache | 1u << attn_decode_gate_slot::v_cache, attn_decode_gate_slot::step};
#define LW_DECODE(D) RegisterOverride decode_gate_h##D("attn_decode_gate__f16_h" #D, (const void*)decode_gate<D>, 6, sizeof(attn_decode_gate_args), shape<D>, 1u << attn_decode_gate_slot::step, CACHES);
LW_DECODE(64) LW_DECODE(128) LW_DECODE(256) LW_DECODE(512)

}  // namespace
}  // namespace lw_cuda
