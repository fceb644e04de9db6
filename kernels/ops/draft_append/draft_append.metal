// history[step.pos + 1 + index] = picked; step.drafts = index + 1. One thread does it.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_draft_append)]]
void draft_append(device const uint* picked [[buffer(0)]],
                  device uint* step [[buffer(1)]],
                  device uint* history [[buffer(2)]],
                  constant draft_append_args& a [[buffer(24)]],
                  uint3 thread_at [[thread_position_in_grid]]) {
	if (thread_at.x > 0) return;
	const uint at = step[LW_STEP_POS] + 1 + a.index;
	if (at < a.ctx) history[at] = picked[0];
	step[LW_STEP_DRAFTS] = a.index + 1;
}
