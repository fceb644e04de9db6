// y = row n-1 of x, n = step.committed, at least 1 and at most rows. A thread copies one element.
#include "kernels/shared/metal/base.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_select_row)]]
void select_row(device const float* x [[buffer(0)]],
                device const uint* step [[buffer(1)]],
                device float* y [[buffer(2)]],
                constant select_row_args& a [[buffer(24)]],
                uint3 at [[thread_position_in_grid]]) {
	const uint n = min(max(step[LW_STEP_COMMITTED], 1u), a.rows);
	if (at.x < a.dim && n > 0) y[at.x] = x[size_t(n - 1) * a.dim + at.x];
}
