// y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]); u is the 3 rows of convState followed by the first `channels` columns of
// proj, and convState becomes the last 3 rows of u.
// A thread does one channel through TILE rows; a threadgroup its threads' channels. The threads of the first tile
// alone touch convState: each reads its channel before it writes it, so tiles need no order. No threadgroup memory.
// taps is 4, past is 3.
#include "kernels/shared/metal/base.h"

constant constexpr uint TILE = 16;  // op.ts counts threadgroups by it
constant constexpr uint PAST = 3;
constant constexpr uint AHEAD = 4;  // rows that are loaded at a time

// Channel c, rows first .. first+TILE-1.
inline void convolve_tile(device const float* proj, device const float* w, device float* conv_state, device float* y,
                          const constant conv_silu_args& a, uint c, uint first) {
	const uint end = a.rows - first < TILE ? a.rows : first + TILE;
	const float4 taps = *(device const float4*)(w + size_t(c) * 4);
	device const float* in = proj + c;
	device float* state = conv_state + c;
	device float* out = y + c;
	const size_t in_stride = a.proj_stride, stride = a.channels;

	float u[PAST + AHEAD];
	for (uint j = 0; j < PAST; j++) u[j] = first == 0 ? state[j * stride] : in[(first - PAST + j) * in_stride];
	if (first == 0) {
		// Row i of the new state is row rows + i of u.
		const float old1 = u[1], old2 = u[2];
		state[0] = a.rows >= 3 ? in[(a.rows - 3) * in_stride] : a.rows == 2 ? old2 : old1;
		state[stride] = a.rows >= 2 ? in[(a.rows - 2) * in_stride] : old2;
		state[2 * stride] = in[(a.rows - 1) * in_stride];
	}
	for (uint t = first; t < end; t += AHEAD) {
		for (uint i = 0; i < AHEAD; i++) u[PAST + i] = t + i < end ? in[(t + i) * in_stride] : 0.0f;
		for (uint i = 0; i < AHEAD; i++) {
			float sum = taps.x * u[i];
			sum = fma(taps.y, u[i + 1], sum);
			sum = fma(taps.z, u[i + 2], sum);
			sum = fma(taps.w, u[i + 3], sum);
			if (t + i < end) out[(t + i) * stride] = silu(sum);
		}
		for (uint j = 0; j < PAST; j++) u[j] = u[AHEAD + j];
	}
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_conv_silu)]]
void conv_silu(device const float* proj [[buffer(0)]],
               device const float* w [[buffer(1)]],
               device float* conv_state [[buffer(2)]],
               device float* y [[buffer(3)]],
               constant conv_silu_args& a [[buffer(16)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]]) {
	const uint c = tg.x * LW_THREADS_conv_silu + tid, first = tg.y * TILE;
	if (c < a.channels && first < a.rows) convolve_tile(proj, w, conv_state, y, a, c, first);
}
