// step.pos += rows; history[pos] = step.sampled = picked; step.produced += 1; step.halt = why the run ends, if it does.
// One simdgroup: its lanes look for the token among the stop ids, the first lane writes. `produced` is written last,
// behind a barrier: who sees it count finds the rest of the new token in memory.
#include "kernels/shared/metal/base.h"

static_assert(LW_STOPS_MAX <= LW_THREADS_step_advance, "a stop id a lane");

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_step_advance)]]
void step_advance(device const uint* picked [[buffer(0)]],
                  device uint* step [[buffer(1)]],
                  device uint* history [[buffer(2)]],
                  constant step_advance_args& a [[buffer(24)]],
                  uint3 tg [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]]) {
	if (tg.x > 0) return;
	const uint token = picked[0], stops = min(step[LW_STEP_STOPS], LW_STOPS_MAX);
	const bool stop = simd_any(tid < stops && step[LW_STEP_STOP_IDS + tid] == token);
	const uint produced = step[LW_STEP_PRODUCED] + 1;
	if (tid == 0) {
		const uint pos = step[LW_STEP_POS] + a.rows;
		step[LW_STEP_POS] = pos;
		if (pos < a.ctx) history[pos] = token;
		step[LW_STEP_SAMPLED] = token;
		if (stop) step[LW_STEP_HALT] = LW_HALT_STOP_TOKEN;
		else if (produced >= step[LW_STEP_LIMIT]) step[LW_STEP_HALT] = LW_HALT_BUDGET;
		else if (pos >= a.ctx) step[LW_STEP_HALT] = LW_HALT_CONTEXT_FULL;
	}
	threadgroup_barrier(mem_flags::mem_device);
	if (tid == 0) step[LW_STEP_PRODUCED] = produced;
}
