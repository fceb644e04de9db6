// at.pos = step.pos + ahead - back - ofRound * step.committed. One thread does it.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_step_place)]]
void step_place(device const uint* step [[buffer(0)]],
                device uint* at [[buffer(1)]],
                constant step_place_args& a [[buffer(24)]],
                uint3 thread_at [[thread_position_in_grid]]) {
	if (thread_at.x == 0) at[LW_STEP_POS] = step[LW_STEP_POS] + a.ahead - a.back - a.of_round * step[LW_STEP_COMMITTED];
}
