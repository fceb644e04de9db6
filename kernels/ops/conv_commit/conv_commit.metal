// convState[i] = row n+i of u = convState ++ proj, n = min(step.committed, rows); n = 0 leaves it untouched.
// A thread does one channel. No threadgroup memory. past is 3.
#include "kernels/shared/metal/conv.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_conv_commit)]]
void conv_commit(device const float* proj [[buffer(0)]],
                 device const uint* step [[buffer(1)]],
                 device float* conv_state [[buffer(2)]],
                 constant conv_commit_args& a [[buffer(24)]],
                 uint3 at [[thread_position_in_grid]]) {
	const uint n = min(step[LW_STEP_COMMITTED], a.rows);
	if (at.x < a.channels && n > 0) keep_past(proj, conv_state, a, at.x, n);
}
