// A row of qkv is, for each query head, query and gate (headDim each), then the keys, then the values of all key
// heads. For row r at position p = pos + r:
//   q[r,h] = rope(rms(query) * qNorm), kCache[g,p] = rope(rms(key) * kNorm), vCache[g,p] = value,
//   rms(x) = x / sqrt(mean(x^2) + eps), rope: (a, b) = (x[j], x[j + rotHalf]) ->
//   (a cos t - b sin t, b cos t + a sin t), t = f32(p) * invFreq[j] rounded to f32.
// A position outside the caches is not appended. A simdgroup does one head: a query, a key or a value; it meets no
// other. tg = (row, heads / HEADS). Threadgroup memory: HEADS * 512 * 4 bytes (8 KB).
#include "kernels/shared/metal/attention.h"

constant constexpr uint HEADS = LW_THREADS_qk_norm_rope_append / SIMD;
constant constexpr uint HEAD_DIM_MAX = 512;

// head = rope(rms(x) * w)
inline void norm_rope(device const float* x, device const float* w, device const float* inv_freq, float pos,
                      const constant qk_norm_rope_append_args& a, threadgroup float* head, uint lane) {
	float sum = 0.0f;
	for (uint d = lane; d < a.head_dim; d += SIMD) {
		const float v = x[d];
		sum = fma(v, v, sum);
		head[d] = v;
	}
	const float inverse = precise::rsqrt(simd_sum(sum) / float(a.head_dim) + a.eps);
	for (uint d = lane; d < a.head_dim; d += SIMD) head[d] = head[d] * inverse * w[d];
	simdgroup_barrier(mem_flags::mem_threadgroup);
	for (uint j = lane; j < a.rot_half; j += SIMD) {
		const float angle = pos * inv_freq[j];
		const float c = precise::cos(angle), s = precise::sin(angle);
		const float u = head[j], v = head[j + a.rot_half];
		head[j] = u * c - v * s;
		head[j + a.rot_half] = v * c + u * s;
	}
	simdgroup_barrier(mem_flags::mem_threadgroup);
}

template <typename R>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_qk_norm_rope_append)]]
void qk_norm_rope_append(device const float* qkv [[buffer(0)]],
                         device const float* q_norm [[buffer(1)]],
                         device const float* k_norm [[buffer(2)]],
                         device const float* inv_freq [[buffer(3)]],
                         device const uint* step [[buffer(4)]],
                         device float* q [[buffer(5)]],
                         device uchar* k_cache [[buffer(6)]],
                         device uchar* v_cache [[buffer(7)]],
                         constant qk_norm_rope_append_args& a [[buffer(24)]],
                         uint3 tg [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float heads[HEADS * HEAD_DIM_MAX];
	const uint r = tg.x, h = tg.y * HEADS + sg, dim = a.head_dim;
	if (r >= a.rows || dim > HEAD_DIM_MAX) return;
	threadgroup float* head = heads + sg * HEAD_DIM_MAX;
	device const float* x = qkv + size_t(r) * a.qkv_width;
	const ulong p = ulong(step[LW_STEP_POS]) + r;
	if (h < a.q_heads) {
		norm_rope(x + size_t(2) * h * dim, q_norm, inv_freq, float(p), a, head, lane);
		device float* to = q + (size_t(r) * a.q_heads + h) * dim;
		for (uint d = lane; d < dim; d += SIMD) to[d] = head[d];
	} else if (h < a.q_heads + 2 * a.kv_heads && p < a.ctx) {
		const uint g = (h - a.q_heads) % a.kv_heads;
		const bool is_key = h - a.q_heads < a.kv_heads;
		const size_t at = attn_row_bytes(R(), dim) * (size_t(g) * a.ctx + p);
		x += size_t(a.q_heads + h) * dim;
		if (is_key) {
			norm_rope(x, k_norm, inv_freq, float(p), a, head, lane);
			for (uint d = lane; d < dim; d += SIMD) attn_store(R(), k_cache + at, dim, d, head[d]);
		} else {
			for (uint d = lane; d < dim; d += SIMD) attn_store(R(), v_cache + at, dim, d, x[d]);
		}
	}
}

#define X(variant) LW_KERNEL(qk_norm_rope_append__##variant, qk_norm_rope_append<attn_row::variant>)
LW_VARIANTS_qk_norm_rope_append(X)
#undef X
