// picked[r] = lowest index of the maximum of logits[r, 0:min(vocab, step.vocabUsed)]; NaN is passed over, and a row
// without a number gives 0. A threadgroup does a row: comparing is exact in any order, so the row is strewn over all
// threads and the best of each meet in the end.
// Threadgroup memory: 32 * 8 bytes.
#include "kernels/shared/metal/float_order.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_argmax)]]
void argmax(device const float* logits [[buffer(0)]],
            device const uint* step [[buffer(1)]],
            device uint* picked [[buffer(2)]],
            constant argmax_args& a [[buffer(24)]],
            uint3 tg [[threadgroup_position_in_grid]],
            uint tid [[thread_index_in_threadgroup]],
            uint lane [[thread_index_in_simdgroup]],
            uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup uint slots[2 * SIMD];
	if (tg.x >= a.rows) return;
	const size_t row = size_t(tg.x) * a.vocab;
	const uint used = min(a.vocab, step[LW_STEP_VOCAB_USED]);
	Best best = best_of<EveryFloat>(logits + row, row, used, tid, LW_THREADS_argmax);
	best = threadgroup_best(best, slots, lane, sg, LW_THREADS_argmax / SIMD);
	if (tid == 0) picked[tg.x] = best.at == NO_INDEX ? 0 : best.at;
}
