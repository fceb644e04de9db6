// conv and convState as conv_silu makes them of proj, qk as gdn_qk_norm makes it of conv, beta and g as gdn_gates.
// A simdgroup does one head of q or k through all rows, and holds its channels in registers from the convolution to the
// norm; a thread one of the channels behind them through all rows, or one gate of one row. Threadgroups do the heads,
// then the channels, then the gates. Each channel has one thread, which reads its state before it writes it.
// headDim is at most SIMD * HELD. No threadgroup memory.
#include "kernels/shared/metal/conv.h"
#include "kernels/shared/metal/gdn.h"

constant constexpr uint THREADS = LW_THREADS_gdn_prepare;
constant constexpr uint HEADS = THREADS / SIMD;

// Head h of 2 * k_heads.
inline void prepare_head(device const float* proj, device const float* w, device float* conv_state, device float* conv,
                         device float* qk, const constant gdn_prepare_args& a, uint h, uint lane) {
	const uint n = a.head_dim;
	const size_t first = size_t(h) * n + lane, in_stride = a.proj_stride, stride = a.channels;
	// Of channel lane + 32 m of the head.
	float4 taps[HELD];
	float u[HELD][PAST + 1];
	for (uint m = 0; m < HELD; m++) {
		const bool mine = lane + m * SIMD < n;
		const size_t c = first + m * SIMD;
		taps[m] = mine ? *(device const float4*)(w + c * 4) : float4(0.0f);
		for (uint j = 0; j < PAST; j++) u[m][j] = mine ? conv_state[j * stride + c] : 0.0f;
		u[m][PAST] = mine ? proj[c] : 0.0f;
	}
	for (uint r = 0; r < a.rows; r++) {
		// What the next row needs is asked for before this row's sum.
		const size_t next = r + 1 < a.rows ? r + 1 : r;
		float after[HELD];
		for (uint m = 0; m < HELD; m++) after[m] = lane + m * SIMD < n ? proj[next * in_stride + first + m * SIMD] : 0.0f;
		float held[HELD];
		for (uint m = 0; m < HELD; m++) held[m] = convolved(taps[m], u[m][0], u[m][1], u[m][2], u[m][3]);
		const float scale = unit_scale(simd_sum(squares_held(held)), a.eps, h < a.k_heads, n);
		device float* y = conv + r * stride + first;
		device float* unit = qk + (size_t(r) * 2 * a.k_heads + h) * n + lane;
		for (uint m = 0; m < HELD; m++) {
			if (lane + m * SIMD < n) {
				y[m * SIMD] = held[m];
				unit[m * SIMD] = held[m] * scale;
			}
			for (uint j = 0; j < PAST; j++) u[m][j] = u[m][j + 1];
			u[m][PAST] = after[m];
		}
	}
	for (uint m = 0; m < HELD; m++)
		for (uint j = 0; j < PAST; j++)
			if (lane + m * SIMD < n) conv_state[j * stride + first + m * SIMD] = u[m][j];
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_prepare)]]
void gdn_prepare(device const float* proj [[buffer(0)]],
                 device const float* w [[buffer(1)]],
                 device float* conv_state [[buffer(2)]],
                 device const float* neg_a [[buffer(3)]],
                 device const float* dt_bias [[buffer(4)]],
                 device float* conv [[buffer(5)]],
                 device float* qk [[buffer(6)]],
                 device float* beta [[buffer(7)]],
                 device float* g [[buffer(8)]],
                 constant gdn_prepare_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint heads = 2 * a.k_heads, head_groups = (heads + HEADS - 1) / HEADS;
	const uint values = a.channels - heads * a.head_dim, value_groups = (values + THREADS - 1) / THREADS;
	if (tg.x < head_groups) {
		const uint h = tg.x * HEADS + sg;
		if (h < heads) prepare_head(proj, w, conv_state, conv, qk, a, h, lane);
	} else if (tg.x < head_groups + value_groups) {
		const uint value = (tg.x - head_groups) * THREADS + tid;
		if (value < values) {
			const uint c = heads * a.head_dim + value;
			convolve_tile(proj, w, conv_state, conv, a, c, 0);
			keep_past(proj, conv_state, a, c, a.rows);
		}
	} else {
		gdn_gates_at((tg.x - head_groups - value_groups) * THREADS + tid, proj, neg_a, dt_bias, beta, g, a);
	}
}
