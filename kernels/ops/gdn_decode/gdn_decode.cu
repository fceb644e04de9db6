// What lies between the two products of a recurrent layer, for heads of 128: the bits of the translated kernels of
// conv_silu, gdn_gates, gdn_qk_norm, gdn_step and gated_rms_norm, operation by operation (kernels/shared/metal/conv.h,
// gdn.h and gdn_rows.h).
// A cluster of BLOCKS thread blocks does one key head with its value heads, which share no channel with others. Each
// makes q and k for itself, and takes 16 v rows of each value head through all rows: a warp 4 of them, with S in registers.
// The o of a row and a value head is sent to one block, which norms it. Once all of an o has come every block has read the
// windows of q and k, so that the first block, which gets the first o, may write them.
// The record before makes proj and writes no state: states and weights are loaded before the wait for it.
#include "kernels/shared/cuda/cluster.cuh"
#include "kernels/shared/cuda/gdn.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t QUAD = 4, DIM = HEAD_DIM, HELD = DIM / WARP, PAST = 3;
constexpr uint32_t BLOCKS = 8, WARPS_OF_HEAD = DIM / BLOCKS / QUAD;
// By which q is longer than k: 1 / sqrt(DIM), rounded twice.
constexpr float Q_FACTOR = 0x1.6a09e6p-4f;
static_assert(DIM == 128, "Q_FACTOR is of it");

// silu of each. What divisions do with usual operands (__fdiv_rn has the same steps), side by side: the branch that each has
// for other operands would put one behind the other.
__device__ __forceinline__ void silu_of_all(float (&x)[HELD]) {
	float over[HELD], y[HELD];
	bool usual = true;
#pragma unroll
	for (uint32_t m = 0; m < HELD; m++) {
		over[m] = __fadd_rn(1.0f, expf(-x[m]));
		usual &= (fabsf(x[m]) > 0x1p-60f) & (fabsf(x[m]) < 0x1p60f) & (over[m] < 0x1p60f);
		float inverse;
		asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(over[m]));
		inverse = __fmaf_rn(inverse, __fmaf_rn(-over[m], inverse, 1.0f), inverse);
		y[m] = __fmul_rn(x[m], inverse);
		y[m] = __fmaf_rn(inverse, __fmaf_rn(-over[m], y[m], x[m]), y[m]);
		y[m] = __fmaf_rn(inverse, __fmaf_rn(-over[m], y[m], x[m]), y[m]);
	}
	if (!__all_sync(~0u, usual))
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++) y[m] = __fdiv_rn(x[m], over[m]);
#pragma unroll
	for (uint32_t m = 0; m < HELD; m++) x[m] = y[m];
}

// HELD channels of a lane through rows in order. The first `count` of them are its own, the others are the first once more.
struct Channels {
	const float* in;  // of the row behind the windows
	float* state;
	uint32_t in_stride, stride, count;
	uint32_t offset[HELD];
	float4 taps[HELD];
	float u[HELD][PAST + 1];

	// Before the wait: the record before writes no state. The lane's own are `step` apart.
	__device__ Channels(const gdn_decode_args& a, const float* proj, const float* w, float* conv_state, uint32_t first, uint32_t step, uint32_t count_)
	    : in(proj + first), state(conv_state + first), in_stride(a.proj_stride), stride(a.channels), count(count_) {
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++) {
			offset[m] = m < count ? m * step : 0;
			taps[m] = reinterpret_cast<const float4*>(w)[first + offset[m]];
#pragma unroll
			for (uint32_t j = 0; j < PAST; j++) u[m][j] = __ldcg(state + j * size_t(stride) + offset[m]);
		}
	}
	__device__ void load_row() {
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++) u[m][PAST] = in[offset[m]];
	}
	__device__ void convolve(float (&x)[HELD]) const {
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++) {
			float sum = __fmul_rn(taps[m].x, u[m][0]);
			sum = __fmaf_rn(taps[m].y, u[m][1], sum);
			sum = __fmaf_rn(taps[m].z, u[m][2], sum);
			x[m] = __fmaf_rn(taps[m].w, u[m][3], sum);
		}
		silu_of_all(x);
	}
	// To the next row, if there is one.
	__device__ void advance(bool more) {
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++)
#pragma unroll
			for (uint32_t j = 0; j < PAST; j++) u[m][j] = u[m][j + 1];
		in += in_stride;
		if (more) load_row();
	}
	// Behind the last row.
	__device__ void keep() const {
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++)
#pragma unroll
			for (uint32_t j = 0; j < PAST; j++)
				if (m < count) state[j * size_t(stride) + offset[m]] = u[m][j];
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
// A lane's share of the sum of squares of a head's vector.
__device__ __forceinline__ float squares_of(const float (&x)[HELD]) {
	float sum = 0.0f;
#pragma unroll
	for (uint32_t m = 0; m < HELD; m++) sum = __fmaf_rn(x[m], x[m], sum);
	return sum;
}

// HEADS value heads a key head. grid = (BLOCKS, kHeads). Some warps step: they have S. Of those behind them one makes q, one
// k, one v, and the last the gates; it norms o too.
enum Maker : uint32_t { MAKES_Q, MAKES_K, MAKES_V, MAKES_GATES, MAKERS };
template <uint32_t HEADS> constexpr uint32_t STEPPING = HEADS * WARPS_OF_HEAD;

template <uint32_t HEADS>
__global__ void LW_CLUSTER_OF(BLOCKS) __launch_bounds__((STEPPING<HEADS> + MAKERS) * WARP)
decode(const float* proj, const float* w, float* conv_state, const float* neg_a, const float* dt_bias, float* gdn_state, const float* w_norm, float* y,
       const __grid_constant__ gdn_decode_args a, unsigned long long* stamp) {
#if LW_CLUSTERS
	constexpr uint32_t ROWS_MAX = 16, ITEMS = (ROWS_MAX * HEADS + BLOCKS - 1) / BLOCKS;  // rows of o that a block gets
	constexpr uint32_t VALUES = DIM / BLOCKS;                                            // v rows of a value head that it has
	static_assert(VALUES * HEADS <= DIM && HEADS <= WARP, "one warp makes v, and the gates of a row");
	// Of this row and of the next.
	__shared__ float4 unit[2][2][WARP];
	__shared__ float values[2][HEADS * VALUES];
	__shared__ float2 gates[ROWS_MAX][HEADS];  // rate and decay
	__shared__ float o[ITEMS][DIM];
	__shared__ uint64_t whole;
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, part = blockIdx.x, key_head = blockIdx.y, items = a.rows * HEADS;
	const auto head_of = [&](uint32_t i) { return a.head_map == 1 ? i * a.k_heads + key_head : key_head * HEADS + i; };

	if (warp < STEPPING<HEADS>) {
		const uint32_t i = warp / WARPS_OF_HEAD, v_row = warp % WARPS_OF_HEAD * QUAD, v0 = part * VALUES + v_row;
		float4* state = reinterpret_cast<float4*>(gdn_state + (size_t(head_of(i)) * DIM + v0) * DIM) + lane;
		float4 s[QUAD];
#pragma unroll
		for (uint32_t j = 0; j < QUAD; j++) s[j] = __ldcg(state + j * WARP);
		if (threadIdx.x == 0) expect_bytes(&whole, (items - part + BLOCKS - 1) / BLOCKS * (DIM * 4));
		arrive_relaxed_at_cluster();
		wait_for_previous();
		wait_for_cluster();  // all of it run and expect what they are sent
		for (uint32_t r = 0; r < a.rows; r++) {
			__syncthreads();
			const float4 q = unit[r % 2][MAKES_Q][lane], k = unit[r % 2][MAKES_K][lane];
			const float predicted = sums_of_four(dot(s[0], k), dot(s[1], k), dot(s[2], k), dot(s[3], k), lane);
			const float read = sums_of_four(dot(s[0], q), dot(s[1], q), dot(s[2], q), dot(s[3], q), lane);
			const float kq = sum_of_lanes(dot(k, q));
			const float2 gate = gates[r][i];
			const float d = __fmul_rn(gate.x, __fmaf_rn(-gate.y, predicted, values[r % 2][i * VALUES + v_row + lane % QUAD]));
			const uint32_t item = r * HEADS + i;
			if (lane < QUAD) send(item % BLOCKS, o[item / BLOCKS] + v0 + lane, &whole, __fmaf_rn(d, kq, __fmul_rn(gate.y, read)));
#pragma unroll
			for (uint32_t j = 0; j < QUAD; j++) s[j] = updated(s[j], gate.y, __shfl_sync(~0u, d, j), k);
		}
#pragma unroll
		for (uint32_t j = 0; j < QUAD; j++) state[j * WARP] = s[j];
		return stamp_end(stamp);
	}

	const uint32_t maker = warp - STEPPING<HEADS>;
	arrive_relaxed_at_cluster();
	if (maker != MAKES_GATES) {
		// Of v a warp has WARP / VALUES value heads side by side.
		const bool makes_v = maker == MAKES_V;
		const uint32_t total = makes_v ? VALUES * HEADS : DIM, at = lane % total;
		Channels own(a, proj, w, conv_state, makes_v ? (2 * a.k_heads + head_of(at / VALUES)) * DIM + part * VALUES + at % VALUES : (maker * a.k_heads + key_head) * DIM + at,
		             makes_v ? WARP / VALUES * (head_of(1) - head_of(0)) * DIM : WARP, (total + WARP - 1 - lane) / WARP);
		wait_for_previous();
		own.load_row();
#pragma unroll 1
		for (uint32_t r = 0; r < a.rows; r++) {
			float x[HELD];
			own.convolve(x);
			own.advance(r + 1 < a.rows);
			if (makes_v) {
#pragma unroll
				for (uint32_t m = 0; m < HELD; m++)
					if (m < own.count) values[r % 2][lane + m * WARP] = x[m];
			} else {
				float scale = rsqrtf(__fadd_rn(sum_of_lanes(squares_of(x)), a.qk_eps));
				if (maker == MAKES_Q) scale = __fmul_rn(scale, Q_FACTOR);
#pragma unroll
				for (uint32_t m = 0; m < HELD; m++) reinterpret_cast<float*>(unit[r % 2][maker])[lane + m * WARP] = __fmul_rn(x[m], scale);
			}
			__syncthreads();
		}
		wait_for_cluster();
		if (!makes_v) {
			if (part > 0) return stamp_end(stamp);
			wait_for_bytes(&whole);
		}
		own.keep();
	} else {
		float weight[HELD], z[HELD];
#pragma unroll
		for (uint32_t m = 0; m < HELD; m++) weight[m] = w_norm[lane + m * WARP];
		const uint32_t gated = head_of(lane % HEADS);
		const float rate = neg_a[gated], bias = dt_bias[gated];
		const auto load_z = [&](uint32_t item) {
#pragma unroll
			for (uint32_t m = 0; m < HELD; m++) z[m] = proj[size_t(item / HEADS) * a.proj_stride + a.z_col + head_of(item % HEADS) * DIM + lane + m * WARP];
		};
		wait_for_previous();
		const auto load_gate = [&](uint32_t col, uint32_t r) { return proj[r * size_t(a.proj_stride) + col + gated]; };
		float b_in = load_gate(a.b_col, 0), a_in = load_gate(a.a_col, 0);
		if (part < items) load_z(part);
#pragma unroll 1
		for (uint32_t r = 0; r < a.rows; r++) {
			if (lane < HEADS) gates[r][lane] = {sigmoid(b_in), expf(__fmul_rn(rate, softplus(__fadd_rn(a_in, bias))))};
			if (r + 1 < a.rows) b_in = load_gate(a.b_col, r + 1), a_in = load_gate(a.a_col, r + 1);
			__syncthreads();
		}
		wait_for_cluster();
#pragma unroll 1
		for (uint32_t item = part; item < items; item += BLOCKS) {
			float gate[HELD], x[HELD];
			silu_of_all(z);
#pragma unroll
			for (uint32_t m = 0; m < HELD; m++) gate[m] = __fmul_rn(weight[m], z[m]);
			if (item + BLOCKS < items) load_z(item + BLOCKS);
			wait_for_bytes(&whole);
#pragma unroll
			for (uint32_t m = 0; m < HELD; m++) x[m] = o[item / BLOCKS][lane + m * WARP];
			// A division by a power of two.
			const float scale = rsqrtf(__fadd_rn(__fmul_rn(sum_of_lanes(squares_of(x)), 1.0f / DIM), a.eps));
#pragma unroll
			for (uint32_t m = 0; m < HELD; m++) y[(size_t(item / HEADS) * a.v_heads + head_of(item % HEADS)) * DIM + lane + m * WARP] = __fmul_rn(__fmul_rn(x[m], scale), gate[m]);
		}
	}
#endif
	stamp_end(stamp);
}

template <uint32_t HEADS> bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const gdn_decode_args*>(words);
	if (a.head_dim != DIM || a.v_heads != HEADS * a.k_heads || !has_clusters((const void*)decode<HEADS>)) return false;
	*out = {{BLOCKS, a.k_heads, 1}, (STEPPING<HEADS> + MAKERS) * WARP, 0};
	return true;
}
// All but proj and y.
constexpr uint32_t EARLY = 1u << gdn_decode_slot::w | 1u << gdn_decode_slot::conv_state | 1u << gdn_decode_slot::neg_a | 1u << gdn_decode_slot::dt_bias | 1u << gdn_decode_slot::gdn_state |
                           1u << gdn_decode_slot::w_norm;
#define LW_HEADS(n) RegisterOverride heads_##n("gdn_decode", (const void*)decode<n>, 8, sizeof(gdn_decode_args), shape<n>, EARLY);
LW_HEADS(1)
LW_HEADS(2)
LW_HEADS(3)
LW_HEADS(4)

}  // namespace
}  // namespace lw_cuda
