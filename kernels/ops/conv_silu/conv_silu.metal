// y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]); u is the 3 rows of convState followed by the first `channels` columns of
// proj, and convState becomes the last 3 rows of u.
// A thread does one channel through CONV_TILE rows; a threadgroup its threads' channels. The threads of the first tile
// alone touch convState: each has read its channel when it writes it, so tiles need no order. No threadgroup memory.
// taps is 4, past is 3.
#include "kernels/shared/metal/conv.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_conv_silu)]]
void conv_silu(device const float* proj [[buffer(0)]],
               device const float* w [[buffer(1)]],
               device float* conv_state [[buffer(2)]],
               device float* y [[buffer(3)]],
               constant conv_silu_args& a [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]]) {
	const uint c = tg.x * LW_THREADS_conv_silu + tid, first = tg.y * CONV_TILE;
	if (c < a.channels && first < a.rows) {
		convolve_tile(proj, w, conv_state, y, a, c, first);
		if (first == 0) keep_past(proj, conv_state, a, c, a.rows);
	}
}
