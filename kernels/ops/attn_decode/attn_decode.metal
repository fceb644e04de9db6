// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head.
// A threadgroup does up to ATTN_QUERIES query heads of one key head for one row, block of keys after block, so that
// each key and value is loaded once for all of these heads: tg = (row, kv * head_tiles + tile).
// Threadgroup memory: (8 * headDim + 8 * 260 + 16) * 4 bytes, 24.8 KB for 512 dims; 32 accumulators a thread.
#include "kernels/shared/metal/attention_rows.h"

template <typename V>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_decode)]]
void attn_decode(device const float* q [[buffer(0)]],
                 device const uchar* k_cache [[buffer(1)]],
                 device const uchar* v_cache [[buffer(2)]],
                 device const uint* step [[buffer(3)]],
                 device float* o [[buffer(4)]],
                 constant attn_decode_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
	static_assert(LW_THREADS_attn_decode == ATTN_THREADS, "a simdgroup for each query head");
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
	const uint keys = uint(keys_seen(step[LW_STEP_POS], r, a.ctx));
	attend_keys<V>(NoBias(), NoGates(), q + at, k, v, keys, group.count, a.scale, o + at, query, score, factors, tid, lane, sg);
}

#define X(variant) LW_KERNEL(attn_decode__##variant, attn_decode<attn::variant>)
LW_VARIANTS_attn_decode(X)
#undef X
