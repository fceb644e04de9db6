// y as gated_rms_norm makes it of the o of gdn_step, for heads of 128: the bits of the translated kernels, operation by
// operation (kernels/shared/metal/gdn_rows.h and gdn.h).
// A cluster of CLUSTER thread blocks does one head, so that its state is read by as many multiprocessors: each takes 32 v
// rows through all rows, a warp 4 of them, with S in registers. Every thread block is sent the whole of o and norms its own
// part. grid = (CLUSTER, vHeads).
#include "kernels/shared/cuda/cluster.cuh"
#include "kernels/shared/cuda/gdn.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t QUAD = 4, DIM = HEAD_DIM, ROWS_MAX = 16;
constexpr uint32_t CLUSTER = DIM / WARP, WARPS = WARP / QUAD, THREADS = WARPS * WARP;

// Lane i gets the sum over lanes of value i % 4.
__device__ __forceinline__ float sums_of_four(float v0, float v1, float v2, float v3, uint32_t lane) {
	const auto across = [](float v, uint32_t by) { return __shfl_xor_sync(~0u, v, by); };
	const bool upper = lane & 2, odd = lane & 1;
	const float low = __fadd_rn(upper ? v2 : v0, across(upper ? v0 : v2, 2));
	const float high = __fadd_rn(upper ? v3 : v1, across(upper ? v1 : v3, 2));
	float sum = __fadd_rn(odd ? high : low, across(odd ? low : high, 1));
	sum = __fadd_rn(sum, across(sum, 4));
	sum = __fadd_rn(sum, across(sum, 8));
	return __fadd_rn(sum, across(sum, 16));
}

// What a row needs of its own.
struct Inputs {
	float4 q, k;
	float v, gate, rate;
};

__global__ void LW_CLUSTER_OF(CLUSTER) __launch_bounds__(THREADS)
step_norm(const float* qk, const float* conv, const float* g, const float* beta, float* gdn_state, const float* proj, const float* w, float* y,
          const __grid_constant__ gdn_step_norm_args a, unsigned long long* stamp) {
	let_next_begin();
#if LW_CLUSTERS
	__shared__ float4 o[ROWS_MAX][DIM / 4];
	__shared__ uint64_t whole;
	if (threadIdx.x == 0) expect_bytes(&whole, a.rows * DIM * 4);
	arrive_at_cluster();
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, part = blockIdx.x, h = blockIdx.y;
	const uint32_t key_head = a.head_map == 1 ? h % a.k_heads : h / (a.v_heads / a.k_heads), v0 = part * WARP + warp * QUAD;
	float4* state = reinterpret_cast<float4*>(gdn_state + (size_t(h) * DIM + v0) * DIM) + lane;
	if (lane < QUAD * DIM / LINE_FLOATS) prefetch_line(state + lane * (LINE_FLOATS / 4 - 1));
	const float weight = w[part * WARP + lane];
	wait_for_previous();
	wait_for_cluster();  // all of it run and expect what they are sent

	float4 s[QUAD];
#pragma unroll
	for (uint32_t i = 0; i < QUAD; i++) s[i] = state[i * WARP];
	const auto inputs_of = [&](uint32_t r) {
		const float4* q = reinterpret_cast<const float4*>(qk + (size_t(r) * 2 * a.k_heads + key_head) * DIM) + lane;
		return Inputs{q[0], q[size_t(a.k_heads) * WARP], conv[size_t(r) * a.channels + (2 * size_t(a.k_heads) + h) * DIM + v0 + lane % QUAD], g[size_t(r) * a.v_heads + h], beta[size_t(r) * a.v_heads + h]};
	};
	const auto z_of = [&](uint32_t r) { return proj[size_t(r) * a.proj_stride + a.z_col + size_t(h) * DIM + part * WARP + lane]; };
	const float z = warp < a.rows ? z_of(warp) : 0.0f;
	Inputs in = inputs_of(0);
	for (uint32_t r = 0; r < a.rows; r++) {
		Inputs after = in;
		if (r + 1 < a.rows) after = inputs_of(r + 1);
		const float predicted = sums_of_four(dot(s[0], in.k), dot(s[1], in.k), dot(s[2], in.k), dot(s[3], in.k), lane);
		const float read = sums_of_four(dot(s[0], in.q), dot(s[1], in.q), dot(s[2], in.q), dot(s[3], in.q), lane);
		const float kq = sum_of_lanes(dot(in.k, in.q)), decay = expf(in.gate);
		const float d = __fmul_rn(in.rate, __fmaf_rn(-decay, predicted, in.v));
		const float value = __fmaf_rn(d, kq, __fmul_rn(decay, read));
		const float4 values = {__shfl_sync(~0u, value, 0), __shfl_sync(~0u, value, 1), __shfl_sync(~0u, value, 2), __shfl_sync(~0u, value, 3)};
		// A lane sends to a thread block.
		if (lane < CLUSTER) send(lane, &o[r][v0 / QUAD], &whole, values);
#pragma unroll
		for (uint32_t i = 0; i < QUAD; i++) {
			const float di = __shfl_sync(~0u, d, i);
			s[i] = updated(s[i], decay, di, in.k);
		}
		in = after;
	}
	float gate = __fmul_rn(weight, silu(z));
#pragma unroll
	for (uint32_t i = 0; i < QUAD; i++) state[i * WARP] = s[i];
	if (warp >= a.rows) return stamp_end(stamp);
	wait_for_bytes(&whole);
	for (uint32_t r = warp; r < a.rows; r += WARPS) {
		const float* row = reinterpret_cast<const float*>(o[r]) + lane;
		float sum = 0.0f;
#pragma unroll
		for (uint32_t m = 0; m < CLUSTER; m++) sum = __fmaf_rn(row[m * WARP], row[m * WARP], sum);
		// A division by a power of two.
		const float scale = rsqrtf(__fadd_rn(__fmul_rn(sum_of_lanes(sum), 1.0f / DIM), a.eps));
		y[(size_t(r) * a.v_heads + h) * DIM + part * WARP + lane] = __fmul_rn(__fmul_rn(row[part * WARP], scale), gate);
		if (r + WARPS < a.rows) gate = __fmul_rn(weight, silu(z_of(r + WARPS)));
	}
#endif
	stamp_end(stamp);
}

bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const gdn_step_norm_args*>(words);
	if (a.head_dim != DIM || !has_clusters((const void*)step_norm)) return false;
	*out = {{CLUSTER, a.v_heads, 1}, THREADS, 0};
	return true;
}
RegisterOverride step_norm_override("gdn_step_norm", (const void*)step_norm, 8, sizeof(gdn_step_norm_args), shape);

}  // namespace
}  // namespace lw_cuda
