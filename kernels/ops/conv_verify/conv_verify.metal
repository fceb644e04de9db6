// y of conv_silu while convState stays as it is: y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]).
// A thread does one channel through CONV_TILE rows; a threadgroup its threads' channels. No threadgroup memory.
// taps is 4, past is 3.
#include "kernels/shared/metal/conv.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_conv_verify)]]
void conv_verify(device const float* proj [[buffer(0)]],
                 device const float* w [[buffer(1)]],
                 device const float* conv_state [[buffer(2)]],
                 device float* y [[buffer(3)]],
                 constant conv_verify_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]]) {
	const uint c = tg.x * LW_THREADS_conv_verify + tid, first = tg.y * CONV_TILE;
	if (c < a.channels && first < a.rows) convolve_tile(proj, w, conv_state, y, a, c, first);
}
