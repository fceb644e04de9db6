// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head.
// A threadgroup does up to ATTN_QUERIES query heads of one key head for one row, block of keys after block, so that
// each key and value is loaded once for all of these heads: tg = (row, kv * head_tiles + tile).
// Threadgroup memory: (8 * headDim + 8 * 260 + 16) * 4 bytes, 24.8 KB for 512 dims; 32 accumulators a thread.
#include "kernels/shared/metal/attention.h"

template <typename V>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_decode)]]
void attn_decode(device const float* q [[buffer(0)]],
                 device const uchar* k_cache [[buffer(1)]],
                 device const uchar* v_cache [[buffer(2)]],
                 device const uint* step [[buffer(3)]],
                 device float* o [[buffer(4)]],
                 constant attn_decode_args& a [[buffer(16)]],
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

	// Of the results of each pair of heads, those of this thread; of head sg, maximum and sum so far.
	float result[ATTN_QUERIES / 2][AttnResults<V>::count];
	LW_UNROLL
	for (uint t = 0; t < ATTN_QUERIES / 2; t++) {
		LW_UNROLL
		for (uint c = 0; c < AttnResults<V>::count; c++) result[t][c] = 0.0f;
	}
	float most = ATTN_LOWEST, sum = 0.0f;

	attn_stage(q + at, V::dim, group.count, query, tid);
	for (uint first = 0; first < keys; first += LW_ATTN_BLOCK) {
		const uint n = min(keys - first, LW_ATTN_BLOCK);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		attn_scores<V>(k + first * row_bytes, n, group.count, a.scale, query, score, lane, sg);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		if (sg < group.count) {
			const float2 stat = attn_weights(n, (threadgroup float*)(score + sg * ATTN_SCORE4), lane);
			const float block_max = attn_block_max(stat.x, stat.y), top = max(most, block_max);
			const float2 f = attn_factors(most, top, block_max, stat.y);
			sum = attn_sum(sum, stat.y, f);
			most = top;
			if (lane == 0) factors[sg] = f;
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		float acc[ATTN_QUERIES][4];
		attn_values<V>(v + first * row_bytes, n, group.count, score, acc, tid);
		LW_UNROLL
		for (uint t = 0; t < ATTN_QUERIES / 2; t++) {
			if (2 * t >= group.count) break;
			threadgroup_barrier(mem_flags::mem_threadgroup);
			attn_publish<V>(acc + 2 * t, score, tid);
			threadgroup_barrier(mem_flags::mem_threadgroup);
			LW_UNROLL
			for (uint c = 0; c < AttnResults<V>::count; c++) {
				const uint e = tid + c * ATTN_THREADS;
				if (2 * t * V::dim + e < group.count * V::dim && e < 2 * V::dim)
					result[t][c] = attn_add(result[t][c], attn_gathered<V>(e, (threadgroup float*)score), factors[2 * t + e / V::dim]);
			}
		}
	}

	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (lane == 0) factors[sg] = float2(attn_inverse(sum), 0.0f);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	LW_UNROLL
	for (uint t = 0; t < ATTN_QUERIES / 2; t++) {
		LW_UNROLL
		for (uint c = 0; c < AttnResults<V>::count; c++) {
			const uint e = tid + c * ATTN_THREADS;
			if (2 * t * V::dim + e < group.count * V::dim && e < 2 * V::dim)
				o[at + 2 * t * V::dim + e] = result[t][c] * factors[2 * t + e / V::dim].x;
		}
	}
}

#define X(variant) LW_KERNEL(attn_decode__##variant, attn_decode<attn::variant>)
LW_VARIANTS_attn_decode(X)
#undef X
