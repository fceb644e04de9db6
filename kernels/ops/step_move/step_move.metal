// step.pos += rows. One thread does it.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_step_move)]]
void step_move(device uint* step [[buffer(0)]],
               constant step_move_args& a [[buffer(24)]],
               uint3 at [[thread_position_in_grid]]) {
	if (at.x == 0) step[LW_STEP_POS] += a.rows;
}
