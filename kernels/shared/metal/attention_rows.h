// Decode attention of a threadgroup: up to ATTN_QUERIES query heads of one key head, for one row, go through the cache
// block of keys after block, so that each key and value is loaded once for all of these heads. What attn_decode,
// attn_decode_gate and attn_tree share; which keys there are, and what their scores and results get besides, is theirs.
#pragma once
#include "kernels/shared/metal/attention.h"

// Gates have on(x, head, d, dim): what becomes of result x, dim d of `dim`, of a head of the threadgroup.
struct NoGates {
	inline float on(float x, uint, uint, uint) const { return x; }
};

// o[i] = sum_j softmax_j(scale * q[i] . k[j] + bias[j]) v[j], gated, for `heads` heads over keys 0 .. keys - 1, whose rows
// start at k and v; 0 where no key counts. Threadgroup memory as in attn_decode: query[ATTN_QUERIES * dim / 4],
// score[ATTN_QUERIES * ATTN_SCORE4], factors[ATTN_QUERIES]. 32 accumulators a thread.
template <typename V, typename BIAS, typename GATES>
inline void attend_keys(thread const BIAS& bias, thread const GATES& gates, device const float* q, device const uchar* k,
                        device const uchar* v, uint keys, uint heads, float scale, device float* o, threadgroup float4* query, threadgroup float4* score,
                        threadgroup float2* factors, uint tid, uint lane, uint sg) {
	const size_t row_bytes = attn_row_bytes(typename V::row(), V::dim);
	// Of the results of each pair of heads, those of this thread; of head sg, maximum and sum so far.
	float result[ATTN_QUERIES / 2][AttnResults<V>::count];
	LW_UNROLL
	for (uint t = 0; t < ATTN_QUERIES / 2; t++) {
		LW_UNROLL
		for (uint c = 0; c < AttnResults<V>::count; c++) result[t][c] = 0.0f;
	}
	float most = ATTN_LOWEST, sum = 0.0f;

	attn_stage(q, V::dim, heads, query, tid);
	for (uint first = 0; first < keys; first += LW_ATTN_BLOCK) {
		const uint n = min(keys - first, LW_ATTN_BLOCK);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		attn_scores<V>(k + first * row_bytes, n, heads, scale, query, score, lane, sg);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		if (sg < heads) {
			threadgroup float* mine = (threadgroup float*)(score + sg * ATTN_SCORE4);
			bias.add(mine, first, n, lane);
			const float2 stat = attn_weights(n, mine, lane);
			const float block_max = attn_block_max(stat.x, stat.y), top = max(most, block_max);
			const float2 f = attn_factors(most, top, block_max, stat.y);
			sum = attn_sum(sum, stat.y, f);
			most = top;
			if (lane == 0) factors[sg] = f;
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		float acc[ATTN_QUERIES][4];
		attn_values<V>(bias, first, v + first * row_bytes, n, heads, score, acc, tid);
		LW_UNROLL
		for (uint t = 0; t < ATTN_QUERIES / 2; t++) {
			if (2 * t >= heads) break;
			threadgroup_barrier(mem_flags::mem_threadgroup);
			attn_publish<V>(acc + 2 * t, score, tid);
			threadgroup_barrier(mem_flags::mem_threadgroup);
			LW_UNROLL
			for (uint c = 0; c < AttnResults<V>::count; c++) {
				const uint e = tid + c * ATTN_THREADS;
				if (2 * t * V::dim + e < heads * V::dim && e < 2 * V::dim)
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
			if (2 * t * V::dim + e < heads * V::dim && e < 2 * V::dim)
				o[2 * t * V::dim + e] = gates.on(result[t][c] * factors[2 * t + e / V::dim].x, 2 * t + e / V::dim, e % V::dim, V::dim);
		}
	}
}
