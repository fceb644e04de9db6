// y as gated_rms_norm makes it of the o of gdn_step, which takes what conv_silu, gdn_gates and gdn_qk_norm make of proj.
// A threadgroup does one key head with its value heads, which share no channel with others, SPAN rows at a time: a
// simdgroup makes a vector of q or k, a thread values of v; then simdgroups take 4 v rows of a value head each
// (kernels/shared/metal/gdn_rows.h), with o in y, and norm a row each where it stands. The windows of the convolution
// are written last, each channel's by one thread.
// headDim is a multiple of 16 and at most 256. Threadgroup memory: 24640 bytes.
#include "kernels/shared/metal/conv.h"
#include "kernels/shared/metal/gdn_rows.h"

constant constexpr uint THREADS = LW_THREADS_gdn_decode;
constant constexpr uint SIMDGROUPS = THREADS / SIMD;
constant constexpr uint SPAN = 8;
constant constexpr uint DIM_MAX = HELD * SIMD;

// What a span of rows has of a key head and of one of its value heads.
struct HeadRows {
	threadgroup float* qk;  // [r][q, k][DIM_MAX]
	threadgroup float* v;   // [r][DIM_MAX]
	threadgroup float* log_decay;
	threadgroup float* beta;
};

// Value r of channel c behind the convolution.
inline float convolved_at(device const float* proj, device const float* w, device const float* conv_state,
                          const constant gdn_decode_args& a, uint c, uint r) {
	float u[PAST + 1];
	for (uint j = 0; j < PAST + 1; j++) {
		const uint t = r + j;
		u[j] = t < PAST ? conv_state[size_t(t) * a.channels + c] : proj[size_t(t - PAST) * a.proj_stride + c];
	}
	return convolved(*(device const float4*)(w + size_t(c) * 4), u[0], u[1], u[2], u[3]);
}

inline float4 shared_part(threadgroup const float* p, uint n, uint at) {
	return at < n ? *(threadgroup const float4*)(p + at) : float4(0.0f);
}

// All v rows of value head h through `count` rows of a span that begins at row `first`.
template <uint PARTS>
inline void decode_rows(const thread HeadRows& in, device float* gdn_state, device float* y,
                        const constant gdn_decode_args& a, uint h, uint first, uint count, uint lane, uint sg) {
	const uint n = a.head_dim;
	for (uint v0 = sg * QUAD; v0 < n; v0 += SIMDGROUPS * QUAD) {
		GdnTile<PARTS> tile;
		device float* mine = gdn_state + gdn_state_at(a, h, v0);
		gdn_load<PARTS>(mine, n, lane, tile);
		for (uint r = 0; r < count; r++) {
			float4 q[PARTS];
			float4 k[PARTS];
			for (uint p = 0; p < PARTS; p++) {
				q[p] = shared_part(in.qk + 2 * r * DIM_MAX, n, QUAD * lane + p * GDN_KEYS);
				k[p] = shared_part(in.qk + (2 * r + 1) * DIM_MAX, n, QUAD * lane + p * GDN_KEYS);
			}
			const float v = in.v[r * DIM_MAX + v0 + lane % QUAD];
			float d;
			const float o = gdn_row<PARTS>(tile, q, k, v, in.log_decay[r], in.beta[r], lane, d);
			if (lane < QUAD) y[(first + r) * gdn_o_stride(a) + gdn_o_at(a, h) + v0 + lane] = o;
		}
		gdn_store<PARTS>(mine, n, lane, tile);
	}
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_decode)]]
void gdn_decode(device const float* proj [[buffer(0)]],
                device const float* w [[buffer(1)]],
                device float* conv_state [[buffer(2)]],
                device const float* neg_a [[buffer(3)]],
                device const float* dt_bias [[buffer(4)]],
                device float* gdn_state [[buffer(5)]],
                device const float* w_norm [[buffer(6)]],
                device float* y [[buffer(7)]],
                constant gdn_decode_args& a [[buffer(24)]],
                uint3 tg [[threadgroup_position_in_grid]],
                uint tid [[thread_index_in_threadgroup]],
                uint lane [[thread_index_in_simdgroup]],
                uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float4 qk[SPAN * 2 * DIM_MAX / 4];
	threadgroup float v[SPAN * DIM_MAX];
	threadgroup float log_decay[SPAN];
	threadgroup float beta[SPAN];
	const HeadRows in = {(threadgroup float*)qk, v, log_decay, beta};
	const uint n = a.head_dim, key_head = tg.x;
	if (key_head >= a.k_heads || a.rows == 0) return;
	const uint v_heads = a.v_heads / a.k_heads;
	for (uint first = 0; first < a.rows; first += SPAN) {
		const uint count = a.rows - first < SPAN ? a.rows - first : SPAN;
		for (uint at = sg; at < 2 * count; at += SIMDGROUPS) {
			const uint r = at / 2, part = at % 2, c = (part * a.k_heads + key_head) * n + lane;
			float held[HELD];
			for (uint m = 0; m < HELD; m++)
				held[m] = lane + m * SIMD < n ? convolved_at(proj, w, conv_state, a, c + m * SIMD, first + r) : 0.0f;
			const float scale = unit_scale(simd_sum(squares_held(held)), a.qk_eps, part == 0, n);
			for (uint m = 0; m < HELD; m++)
				if (lane + m * SIMD < n) in.qk[at * DIM_MAX + lane + m * SIMD] = held[m] * scale;
		}
		for (uint i = 0; i < v_heads; i++) {
			const uint h = a.head_map == 1 ? i * a.k_heads + key_head : key_head * v_heads + i;
			for (uint at = tid; at < count * n; at += THREADS) {
				const uint r = at / n, d = at % n, c = (2 * a.k_heads + h) * n + d;
				v[r * DIM_MAX + d] = convolved_at(proj, w, conv_state, a, c, first + r);
			}
			if (tid < count) {
				device const float* row = proj + size_t(first + tid) * a.proj_stride;
				log_decay[tid] = gdn_log_decay(row[a.a_col + h], neg_a[h], dt_bias[h]);
				beta[tid] = sigmoid(row[a.b_col + h]);
			}
			threadgroup_barrier(mem_flags::mem_threadgroup);
			if (n <= GDN_KEYS)
				decode_rows<1>(in, gdn_state, y, a, h, first, count, lane, sg);
			else
				decode_rows<2>(in, gdn_state, y, a, h, first, count, lane, sg);
			threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
			for (uint r = sg; r < count; r += SIMDGROUPS) {
				device float* o = y + (first + r) * gdn_o_stride(a) + gdn_o_at(a, h);
				gated_norm(o, w_norm, proj + size_t(first + r) * a.proj_stride + a.z_col + size_t(h) * n, o, n, a.eps, lane);
			}
		}
	}
	// No thread reads the windows any more.
	for (uint at = tid; at < (2 + v_heads) * n; at += THREADS) {
		const uint part = at / n, i = part - 2;
		const uint h = a.head_map == 1 ? i * a.k_heads + key_head : key_head * v_heads + i;
		const uint head = part < 2 ? part * a.k_heads + key_head : 2 * a.k_heads + h;
		keep_past(proj, conv_state, a, head * n + at % n, a.rows);
	}
}
