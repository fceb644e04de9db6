// For block b of LW_ATTN_BLOCK keys: stats[r,h,b] = (m, sum_j exp(s_j - m)) and partial[r,h,b] =
// sum_j exp(s_j - m) v[j], with s_j = scale * q[r,h] . k[j], m = max_j s_j and j the keys of the block up to
// pos + r. A block behind pos + r is left alone; a block that pos + r reaches but the cache does not gets the stats
// of no keys. A threadgroup does one block for one row and up to ATTN_QUERIES query heads of one key head:
// tg = (row, block, kv * head_tiles + tile), rows first, for they read the same keys and values.
// Threadgroup memory: (8 * headDim + 8 * 260) * 4 bytes, 24.7 KB for 512 dims; 32 accumulators a thread.
#include "kernels/shared/metal/attention.h"

template <typename V>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_split)]]
void attn_split(device const float* q [[buffer(0)]],
                device const uchar* k_cache [[buffer(1)]],
                device const uchar* v_cache [[buffer(2)]],
                device const uint* step [[buffer(3)]],
                device float* partial [[buffer(4)]],
                device float* stats [[buffer(5)]],
                constant attn_split_args& a [[buffer(24)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint tid [[thread_index_in_threadgroup]],
                uint lane [[thread_index_in_simdgroup]],
                uint sg [[simdgroup_index_in_threadgroup]]) {
	static_assert(LW_THREADS_attn_split == ATTN_THREADS, "a simdgroup for each query head");
	threadgroup float4 query[ATTN_QUERIES * V::dim / 4];
	threadgroup float4 score[ATTN_QUERIES * ATTN_SCORE4];
	const uint r = tg.x, b = tg.y, tiles = head_tiles(a.q_heads, a.kv_heads), kv = tg.z / tiles;
	if (r >= a.rows || b >= a.blocks || kv >= a.kv_heads) return;
	const HeadGroup group = head_tile(a.q_heads, a.kv_heads, kv, tg.z % tiles);
	if (group.count == 0) return;
	const uint pos = step[LW_STEP_POS];
	const ulong first = ulong(b) * LW_ATTN_BLOCK, keys = keys_seen(pos, r, a.ctx);
	if (first > ulong(pos) + r) return;
	// Of head i of the group, stats and partial stand at block + i * a.blocks.
	const size_t block = (size_t(r) * a.q_heads + group.first) * a.blocks + b;
	if (first >= keys) {
		if (tid < group.count) {
			stats[(block + size_t(tid) * a.blocks) * 2] = ATTN_LOWEST;
			stats[(block + size_t(tid) * a.blocks) * 2 + 1] = 0.0f;
		}
		return;
	}
	const uint n = uint(min(keys - first, ulong(LW_ATTN_BLOCK)));
	const size_t row_bytes = attn_row_bytes(typename V::row(), V::dim), at = row_bytes * (size_t(kv) * a.ctx + first);

	attn_stage(q + (size_t(r) * a.q_heads + group.first) * V::dim, V::dim, group.count, query, tid);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	attn_scores<V>(k_cache + at, n, group.count, a.scale, query, score, lane, sg);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (sg < group.count) {
		const float2 stat = attn_weights(n, (threadgroup float*)(score + sg * ATTN_SCORE4), lane);
		device float* to = stats + (block + size_t(sg) * a.blocks) * 2;
		if (lane == 0) to[0] = stat.x;
		if (lane == 0) to[1] = stat.y;
	}
	threadgroup_barrier(mem_flags::mem_threadgroup);
	float acc[ATTN_QUERIES][4];
	attn_values<V>(NoBias(), 0, v_cache + at, n, group.count, score, acc, tid);
	LW_UNROLL
	for (uint t = 0; t < ATTN_QUERIES / 2; t++) {
		if (2 * t >= group.count) break;
		threadgroup_barrier(mem_flags::mem_threadgroup);
		attn_publish<V>(acc + 2 * t, score, tid);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		for (uint e = tid; e < min(2u, group.count - 2 * t) * V::dim; e += ATTN_THREADS)
			partial[(block + size_t(2 * t + e / V::dim) * a.blocks) * V::dim + e % V::dim] =
				attn_gathered<V>(e, (threadgroup float*)score);
	}
}

#define X(variant) LW_KERNEL(attn_split__##variant, attn_split<attn::variant>)
LW_VARIANTS_attn_split(X)
#undef X
