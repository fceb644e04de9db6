// A row of qkv is, for each query head, query and gate, then the keys, then the values of all key heads. For row r at
// position p = pos + r: q[r,h] = rope(rms(query) * qNorm), kCache[g,p] = rope(rms(key) * kNorm), vCache[g,p] = value, for
// f16 caches and a rope over the first 64 dims, whose pairs are a lane's. A warp, which is a thread block, does one head:
// a query, a key or a value. Weights are loaded, and angles computed, before the wait for the record before; attention, which
// comes next, begins to read its caches meanwhile.
// grid = (heads, rows).
#include <cuda_fp16.h>

#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

// N dims of a lane, WARP apart.
template <uint32_t N>
__global__ void __launch_bounds__(WARP)
norm_rope_append(const float* qkv, const float* q_norm, const float* k_norm, const float* inv_freq, const uint32_t* step, float* q, uint8_t* k_cache, uint8_t* v_cache,
                 const __grid_constant__ qk_norm_rope_append_args a, unsigned long long* stamp) {
	let_next_begin();
	constexpr uint32_t DIM = N * WARP;
	const uint32_t h = blockIdx.x, r = blockIdx.y, lane = threadIdx.x;
	const bool is_query = h < a.q_heads, is_value = h >= a.q_heads + a.kv_heads;
	float w[N];
#pragma unroll
	for (uint32_t m = 0; m < N; m++) w[m] = (is_query ? q_norm : k_norm)[lane + m * WARP];
	const uint64_t p = uint64_t(__ldcg(step + LW_STEP_POS)) + r;
	float sine, cosine;
	sincosf(__fmul_rn(float(p), inv_freq[lane]), &sine, &cosine);
	wait_for_previous();
	const float* from = qkv + size_t(r) * a.qkv_width + size_t(is_query ? 2 * h : a.q_heads + h) * DIM + lane;
	float x[N];
#pragma unroll
	for (uint32_t m = 0; m < N; m++) x[m] = from[m * WARP];
	if (!is_value) {
		float sum = 0.0f;
#pragma unroll
		for (uint32_t m = 0; m < N; m++) sum = __fmaf_rn(x[m], x[m], sum);
		const float inverse = rsqrtf(__fadd_rn(__fmul_rn(sum_of_lanes(sum), 1.0f / DIM), a.eps));
#pragma unroll
		for (uint32_t m = 0; m < N; m++) x[m] = __fmul_rn(__fmul_rn(x[m], inverse), w[m]);
		const float u = x[0], v = x[1];
		x[0] = __fsub_rn(__fmul_rn(u, cosine), __fmul_rn(v, sine));
		x[1] = __fadd_rn(__fmul_rn(v, cosine), __fmul_rn(u, sine));
	}
	if (is_query) {
		float* to = q + (size_t(r) * a.q_heads + h) * DIM + lane;
#pragma unroll
		for (uint32_t m = 0; m < N; m++) to[m * WARP] = x[m];
	} else if (p < a.ctx) {
		half* to = reinterpret_cast<half*>(is_value ? v_cache : k_cache) + (size_t(h - a.q_heads - (is_value ? a.kv_heads : 0)) * a.ctx + p) * DIM + lane;
#pragma unroll
		for (uint32_t m = 0; m < N; m++) to[m * WARP] = __float2half_rn(x[m]);
	}
	stamp_end(stamp);
}

template <uint32_t N> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const qk_norm_rope_append_args*>(words);
	// A launch has no more rows than this.
	if (a.head_dim != N * WARP || a.rot_half != WARP || a.rows > 65535) return false;
	*out = {{a.q_heads + 2 * a.kv_heads, a.rows, 1}, WARP, 0};
	return true;
}
constexpr uint32_t EARLY = 1u << qk_norm_rope_append_slot::q_norm | 1u << qk_norm_rope_append_slot::k_norm | 1u << qk_norm_rope_append_slot::inv_freq | 1u << qk_norm_rope_append_slot::step;
constexpr Appended CACHES = {1u << qk_norm_rope_append_slot::k_cache | 1u << qk_norm_rope_append_slot::v_cache, qk_norm_rope_append_slot::step};
#define LW_APPEND(N) RegisterOverride append_##N("qk_norm_rope_append__f16", (const void*)norm_rope_append<N>, 8, sizeof(qk_norm_rope_append_args), shape<N>, EARLY, CACHES, true);
LW_APPEND(2) LW_APPEND(4) LW_APPEND(8)

}  // namespace
}  // namespace lw_cuda
