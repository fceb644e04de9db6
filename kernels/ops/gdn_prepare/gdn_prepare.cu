// conv and convState as conv_silu makes them of proj, qk as gdn_qk_norm makes it of conv, beta and g as gdn_gates, for
// heads of 128: the bits of the translated kernels, operation by operation (kernels/shared/metal/conv.h and gdn.h).
// A warp does one head of q or k through all rows; a thread one of the channels behind them through all rows, or one gate
// of one row. Thread blocks do the heads, then the channels, then the gates. Weights are loaded before the wait for the
// record before, and the state is brought near.
#include "kernels/shared/cuda/gdn.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t THREADS = 64, WARPS = THREADS / WARP, PAST = 3;
static_assert(LINE_FLOATS == WARP, "a warp's channels are a line");

// N channels of a lane, WARP apart, through rows in order.
template <uint32_t N> struct Channels {
	const float* proj;
	float *state, *conv;  // of the first of them
	uint32_t in_stride, stride;
	bool mine;
	float4 taps[N];
	float u[N][PAST + 1];

	// Before the wait.
	__device__ Channels(const gdn_prepare_args& a, const float* proj_, const float* w, float* state_, float* conv_, uint32_t first, uint32_t lane)
	    : proj(proj_ + first + lane), state(state_ + first + lane), conv(conv_ + first + lane), in_stride(a.proj_stride), stride(a.channels), mine(first + lane < a.channels) {
#pragma unroll
		for (uint32_t m = 0; m < N; m++) taps[m] = mine ? reinterpret_cast<const float4*>(w)[first + lane + m * WARP] : float4{};
		if (lane < N * PAST) {
			const uint32_t channel = first + lane / PAST * WARP;
			if (channel < a.channels) prefetch_line(state_ + size_t(lane % PAST) * stride + channel);
		}
	}
	__device__ void load() {
#pragma unroll
		for (uint32_t m = 0; m < N; m++) {
#pragma unroll
			for (uint32_t j = 0; j < PAST; j++) u[m][j] = mine ? state[j * size_t(stride) + m * WARP] : 0.0f;
			u[m][PAST] = mine ? proj[m * WARP] : 0.0f;
		}
	}
	// Calls row(r, y) with the row's results.
	template <typename ROW> __device__ void convolve(uint32_t rows, ROW row) {
		for (uint32_t r = 0; r < rows; r++) {
			// What the next row needs is asked for before this row's results.
			float y[N], after[N];
#pragma unroll
			for (uint32_t m = 0; m < N; m++) after[m] = mine && r + 1 < rows ? proj[(r + 1) * size_t(in_stride) + m * WARP] : 0.0f;
#pragma unroll
			for (uint32_t m = 0; m < N; m++) {
				float sum = __fmul_rn(taps[m].x, u[m][0]);
				sum = __fmaf_rn(taps[m].y, u[m][1], sum);
				sum = __fmaf_rn(taps[m].z, u[m][2], sum);
				y[m] = silu(__fmaf_rn(taps[m].w, u[m][3], sum));
				if (mine) conv[r * size_t(stride) + m * WARP] = y[m];
			}
			row(r, y);
#pragma unroll
			for (uint32_t m = 0; m < N; m++) {
#pragma unroll
				for (uint32_t j = 0; j < PAST; j++) u[m][j] = u[m][j + 1];
				u[m][PAST] = after[m];
			}
		}
	}
	// The window behind the last row.
	__device__ void keep() const {
#pragma unroll
		for (uint32_t m = 0; m < N; m++)
#pragma unroll
			for (uint32_t j = 0; j < PAST; j++)
				if (mine) state[j * size_t(stride) + m * WARP] = u[m][j];
	}
};

// log(1 + u) for 0 <= u <= 1.
__device__ __forceinline__ float log1p_of_fraction(float u) {
	const float s = __fdiv_rn(u, __fadd_rn(2.0f, u)), z = __fmul_rn(s, s);
	float p = 1.0f / 17.0f;
	p = __fmaf_rn(p, z, 1.0f / 15.0f);
	p = __fmaf_rn(p, z, 1.0f / 13.0f);
	p = __fmaf_rn(p, z, 1.0f / 11.0f);
	p = __fmaf_rn(p, z, 1.0f / 9.0f);
	p = __fmaf_rn(p, z, 1.0f / 7.0f);
	p = __fmaf_rn(p, z, 1.0f / 5.0f);
	p = __fmaf_rn(p, z, 1.0f / 3.0f);
	p = __fmaf_rn(p, z, 1.0f);
	return __fmul_rn(__fmul_rn(2.0f, s), p);
}
__device__ __forceinline__ float softplus(float x) { return __fadd_rn(fmaxf(x, 0.0f), log1p_of_fraction(expf(-fabsf(x)))); }

__global__ void __launch_bounds__(THREADS)
prepare(const float* proj, const float* w, float* conv_state, const float* neg_a, const float* dt_bias, float* conv, float* qk, float* beta, float* g,
        const __grid_constant__ gdn_prepare_args a, unsigned long long* stamp) {
	let_next_begin();
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	const uint32_t heads = 2 * a.k_heads, values = a.channels - heads * HEAD_DIM, value_blocks = (values + THREADS - 1) / THREADS;
	if (blockIdx.x < a.k_heads) {
		const uint32_t h = blockIdx.x * WARPS + warp;
		Channels<HEAD_DIM / WARP> head(a, proj, w, conv_state, conv, h * HEAD_DIM, lane);
		wait_for_previous();
		head.load();
		head.convolve(a.rows, [&](uint32_t r, const float (&y)[HEAD_DIM / WARP]) {
			float squares = 0.0f;
#pragma unroll
			for (uint32_t m = 0; m < HEAD_DIM / WARP; m++) squares = __fmaf_rn(y[m], y[m], squares);
			float scale = rsqrtf(__fadd_rn(sum_of_lanes(squares), a.eps));
			if (h < a.k_heads) scale = __fmul_rn(scale, __fdiv_rn(1.0f, __fsqrt_rn(float(HEAD_DIM))));
			float* unit = qk + (size_t(r) * heads + h) * HEAD_DIM + lane;
#pragma unroll
			for (uint32_t m = 0; m < HEAD_DIM / WARP; m++) unit[m * WARP] = __fmul_rn(y[m], scale);
		});
		head.keep();
	} else if (blockIdx.x < a.k_heads + value_blocks) {
		Channels<1> value(a, proj, w, conv_state, conv, heads * HEAD_DIM + (blockIdx.x - a.k_heads) * THREADS + warp * WARP, lane);
		wait_for_previous();
		value.load();
		value.convolve(a.rows, [](uint32_t, const float (&)[1]) {});
		value.keep();
	} else {
		const uint32_t at = (blockIdx.x - a.k_heads - value_blocks) * THREADS + threadIdx.x, r = at / a.v_heads, h = at % a.v_heads;
		const float rate = neg_a[h], bias = dt_bias[h];
		wait_for_previous();
		if (r < a.rows) {
			const float* row = proj + size_t(r) * a.proj_stride;
			beta[at] = sigmoid(row[a.b_col + h]);
			g[at] = __fmul_rn(rate, softplus(__fadd_rn(row[a.a_col + h], bias)));
		}
	}
	stamp_end(stamp);
}

bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const gdn_prepare_args*>(words);
	if (a.head_dim != HEAD_DIM) return false;
	const uint32_t values = a.channels - 2 * a.k_heads * HEAD_DIM;
	*out = {{2 * a.k_heads / WARPS + (values + THREADS - 1) / THREADS + (a.rows * a.v_heads + THREADS - 1) / THREADS, 1, 1}, THREADS, 0};
	return true;
}
RegisterOverride prepare_override("gdn_prepare", (const void*)prepare, 9, sizeof(gdn_prepare_args), shape);

}  // namespace
}  // namespace lw_cuda
