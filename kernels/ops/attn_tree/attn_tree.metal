// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j] + b[r,j]) v[j] over keys j = 0 .. pos + rows - 1 of h's key head,
// b[r,j] = mask[r, j - pos] from key pos on and 0 before; a row whose keys all have -inf gives 0. A threadgroup does
// what one of attn_decode does: up to ATTN_QUERIES query heads of one key head for one row,
// tg = (row, kv * head_tiles + tile). A key with -inf weighs exactly 0,
// whatever it is.
// Threadgroup memory: (8 * headDim + 8 * 260 + 16) * 4 bytes, 24.8 KB for 512 dims; 32 accumulators a thread.
#include "kernels/shared/metal/attention_rows.h"

// mask is that of the row; keys from pos on have it.
struct TreeBias {
	device const float* mask;
	uint pos;
	inline float of(uint key) const { return key < pos ? 0.0f : mask[key - pos]; }
	inline bool counts(uint key) const { return of(key) >= ATTN_LOWEST; }
	inline void add(threadgroup float* s, uint first, uint n, uint lane) const {
		if (first + n <= pos) return;
		for (uint j = lane; j < n; j += SIMD) s[j] = counts(first + j) ? s[j] + of(first + j) : of(first + j);
	}
};

template <typename V>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_tree)]]
void attn_tree(device const float* q [[buffer(0)]],
               device const uchar* k_cache [[buffer(1)]],
               device const uchar* v_cache [[buffer(2)]],
               device const uint* step [[buffer(3)]],
               device const float* mask [[buffer(4)]],
               device float* o [[buffer(5)]],
               constant attn_tree_args& a [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]],
               uint lane [[thread_index_in_simdgroup]],
               uint sg [[simdgroup_index_in_threadgroup]]) {
	static_assert(LW_THREADS_attn_tree == ATTN_THREADS, "a simdgroup for each query head");
	threadgroup float4 query[ATTN_QUERIES * V::dim / 4];
	threadgroup float4 score[ATTN_QUERIES * ATTN_SCORE4];
	threadgroup float2 factors[ATTN_QUERIES];
	const uint r = tg.x, tiles = head_tiles(a.q_heads, a.kv_heads), kv = tg.y / tiles;
	if (r >= a.rows || kv >= a.kv_heads) return;
	const HeadGroup group = head_tile(a.q_heads, a.kv_heads, kv, tg.y % tiles);
	if (group.count == 0) return;
	const size_t row_bytes = attn_row_bytes(typename V::row(), V::dim);
	device const uchar* k = k_cache + row_bytes * a.ctx * kv;
	device const uchar* v = v_cache + row_bytes * a.ctx * kv;
	const size_t at = (size_t(r) * a.q_heads + group.first) * V::dim;
	const uint pos = step[LW_STEP_POS], keys = uint(keys_seen(pos, a.rows - 1, a.ctx));
	const TreeBias bias = {mask + size_t(r) * a.mask_stride, pos};
	attend_keys<V>(bias, NoGates(), q + at, k, v, keys, group.count, a.scale, o + at, query, score, factors, tid, lane, sg);
}

#define X(variant) LW_KERNEL(attn_tree__##variant, attn_tree<attn::variant>)
LW_VARIANTS_attn_tree(X)
#undef X
