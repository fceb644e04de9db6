// The causal depthwise convolution of conv_silu, which conv_verify and gdn_decode must repeat bit by bit, and what
// conv_silu and gdn_commit keep of it: u is the 3 rows of convState followed by the first `channels` columns of proj.
// taps is 4, past is 3.
#pragma once
#include "kernels/shared/metal/base.h"

constant constexpr uint CONV_TILE = 16;  // op.ts counts threadgroups by it
constant constexpr uint PAST = 3;
constant constexpr uint AHEAD = 4;  // rows that are loaded at a time

// silu(sum_j taps[j] * u_j)
inline float convolved(float4 taps, float u0, float u1, float u2, float u3) {
	float sum = taps.x * u0;
	sum = fma(taps.y, u1, sum);
	sum = fma(taps.z, u2, sum);
	return silu(fma(taps.w, u3, sum));
}

// y[t,c] = silu(sum_j w[c,j] * u[t+j,c]) for channel c, rows first .. first+CONV_TILE-1. The first tile alone reads
// the state.
template <typename ARGS>
inline void convolve_tile(device const float* proj, device const float* w, device const float* conv_state,
                          device float* y, const constant ARGS& a, uint c, uint first) {
	const uint end = a.rows - first < CONV_TILE ? a.rows : first + CONV_TILE;
	const float4 taps = *(device const float4*)(w + size_t(c) * 4);
	device const float* in = proj + c;
	device const float* state = conv_state + c;
	device float* out = y + c;
	const size_t in_stride = a.proj_stride, stride = a.channels;

	float u[PAST + AHEAD];
	for (uint j = 0; j < PAST; j++) u[j] = first == 0 ? state[j * stride] : in[(first - PAST + j) * in_stride];
	for (uint t = first; t < end; t += AHEAD) {
		for (uint i = 0; i < AHEAD; i++) u[PAST + i] = t + i < end ? in[(t + i) * in_stride] : 0.0f;
		for (uint i = 0; i < AHEAD; i++) {
			const float result = convolved(taps, u[i], u[i + 1], u[i + 2], u[i + 3]);
			if (t + i < end) out[(t + i) * stride] = result;
		}
		for (uint j = 0; j < PAST; j++) u[j] = u[AHEAD + j];
	}
}

// convState[i,c] = u[n+i,c]; n > 0.
template <typename ARGS>
inline void keep_past(device const float* proj, device float* conv_state, const constant ARGS& a, uint c, uint n) {
	device const float* in = proj + c;
	device float* state = conv_state + c;
	const size_t in_stride = a.proj_stride, stride = a.channels;
	const float old1 = state[stride], old2 = state[2 * stride];
	state[0] = n >= 3 ? in[(n - 3) * in_stride] : n == 2 ? old2 : old1;
	state[stride] = n >= 2 ? in[(n - 2) * in_stride] : old2;
	state[2 * stride] = in[(n - 1) * in_stride];
}
