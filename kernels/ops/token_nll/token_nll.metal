// nll[r] = logsumexp(logits[r, 0:min(vocab, step.vocabUsed)]) - logits[r, id], id = history[step.pos + first + r + 1];
// 0 where that position or id does not exist. A threadgroup does a row in two passes, maximum and sum. A chain of
// additions has at most 16 terms before it ends in the next longer one, so that a long row costs few digits.
// Threadgroup memory: 2 * 8 * 4 bytes.
#include "kernels/shared/metal/base.h"

constant constexpr uint RUN = 16;
constant constexpr float LOWEST = -3.402823466e+38f;

// Elements 4 i .. 4 i + 3 of a row. Rows of a vocabulary that is no multiple of 4 begin at any word; they are divided
// among threads in the same way, so a row's bits do not depend on where it lies.
inline float4 four(device const float* x, uint i, bool aligned) {
	if (aligned) return ((device const float4*)x)[i];
	device const float* p = x + 4 * i;
	return float4(p[0], p[1], p[2], p[3]);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_token_nll)]]
void token_nll(device const float* logits [[buffer(0)]],
               device const uint* step [[buffer(1)]],
               device const uint* history [[buffer(2)]],
               device float* nll [[buffer(3)]],
               constant token_nll_args& a [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]],
               uint lane [[thread_index_in_simdgroup]],
               uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float tops[LW_THREADS_token_nll / SIMD];
	threadgroup float slots[LW_THREADS_token_nll / SIMD];
	if (tg.x >= a.rows) return;
	const uint used = min(a.vocab, step[LW_STEP_VOCAB_USED]);
	const ulong at = ulong(step[LW_STEP_POS]) + a.first + tg.x + 1;
	const uint id = at < a.ctx ? history[at] : used;
	if (id >= used) {
		if (tid == 0) nll[tg.x] = 0.0f;
		return;
	}
	device const float* x = logits + size_t(tg.x) * a.vocab;
	const bool aligned = a.vocab % 4 == 0;
	const uint vectors = used / 4, rest = 4 * vectors + tid;

	float top = LOWEST;
	for (uint i = tid; i < vectors; i += LW_THREADS_token_nll) {
		const float4 f = four(x, i, aligned);
		top = max(max(max(f.x, f.y), max(f.z, f.w)), top);
	}
	if (rest < used) top = max(x[rest], top);
	top = simd_max(top);
	if (lane == 0) tops[sg] = top;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	top = simd_max(lane < LW_THREADS_token_nll / SIMD ? tops[lane] : LOWEST);

	float sum = rest < used ? precise::exp(x[rest] - top) : 0.0f;
	for (uint i = tid; i < vectors;) {
		float4 run = float4(0.0f);
		for (uint k = 0; k < RUN && i < vectors; k++, i += LW_THREADS_token_nll) {
			const float4 f = four(x, i, aligned);
			run.x += precise::exp(f.x - top);
			run.y += precise::exp(f.y - top);
			run.z += precise::exp(f.z - top);
			run.w += precise::exp(f.w - top);
		}
		sum += (run.x + run.y) + (run.z + run.w);
	}
	sum = threadgroup_sum(sum, slots, lane, sg, LW_THREADS_token_nll / SIMD);
	if (tid == 0) nll[tg.x] = precise::log(sum) + (top - x[id]);
}
