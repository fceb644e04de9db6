// For each row r in order, with S = gdnState[h] ([v][k]), q and k of the value head's key head:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; o[r,h] = S q.
// The v rows of S are independent. A simdgroup takes 4 of them and a lane 4 or 8 of their keys: its part of S stays
// in registers through all rows, so S is read and written once. Both products are taken with the old S,
// S' q = exp(g) S q + d (k q), so a row costs one round of sums over lanes and not two.
// A threadgroup does 16 v rows of one head. No threadgroup memory. headDim is a multiple of 16 and at most 256; every
// vector of qk and gdnState begins at a multiple of 16 bytes.
// Registers: 16 floats of S a lane up to headDim 128, 32 above; q and k of this row and of the next.
#include "kernels/shared/metal/gdn.h"

constant constexpr uint QUAD = 4;
constant constexpr uint ROWS_OF_GROUP = QUAD * LW_THREADS_gdn_step / SIMD;

// Lane i gets the sum over lanes of value i % 4. Each of the first two exchanges halves the values that a lane carries.
inline float sums_of_four(float v0, float v1, float v2, float v3, uint lane) {
	const bool upper = lane & 2, odd = lane & 1;
	const float low = (upper ? v2 : v0) + simd_shuffle_xor(upper ? v0 : v2, 2);
	const float high = (upper ? v3 : v1) + simd_shuffle_xor(upper ? v1 : v3, 2);
	float sum = (odd ? high : low) + simd_shuffle_xor(odd ? low : high, 1);
	sum += simd_shuffle_xor(sum, 4);
	sum += simd_shuffle_xor(sum, 8);
	return sum + simd_shuffle_xor(sum, 16);
}

inline float dot_onto(float4 a, float4 b, float sum) {
	sum = fma(a.x, b.x, sum);
	sum = fma(a.y, b.y, sum);
	sum = fma(a.z, b.z, sum);
	return fma(a.w, b.w, sum);
}

// decay * s + d * k
inline float4 updated(float4 s, float decay, float d, float4 k) {
	return float4(fma(d, k.x, decay * s.x), fma(d, k.y, decay * s.y), fma(d, k.z, decay * s.z), fma(d, k.w, decay * s.w));
}

inline float4 load_part(device const float* p, uint n, uint at) {
	return at < n ? *(device const float4*)(p + at) : float4(0.0f);
}

// All rows of the v rows v0 .. v0+3 of head h; a lane has keys 4 lane + 128 p of each.
template <uint PARTS>
inline void step_rows(device const float* qk, device const float* conv, device const float* g, device const float* beta,
                      device float* state, device float* o, const constant gdn_step_args& a, uint h, uint v0, uint lane) {
	const uint n = a.head_dim;
	device float* mine = state + gdn_state_at(a, h, v0);
	float4 s[QUAD][PARTS];
	for (uint i = 0; i < QUAD; i++)
		for (uint p = 0; p < PARTS; p++) s[i][p] = load_part(mine + size_t(i) * n, n, QUAD * lane + p * QUAD * SIMD);

	// In sums by lanes, lane i has v row i % 4.
	const uint v_row = v0 + lane % QUAD;
	device const float* q_of = qk + gdn_q_at(a, h);
	device const float* v_of = conv + gdn_v_at(a, h) + v_row;
	const size_t to_k = gdn_q_to_k(a);
	float4 q[PARTS];
	float4 k[PARTS];
	for (uint p = 0; p < PARTS; p++) {
		q[p] = load_part(q_of, n, QUAD * lane + p * QUAD * SIMD);
		k[p] = load_part(q_of + to_k, n, QUAD * lane + p * QUAD * SIMD);
	}
	float v = *v_of, gate = g[h], rate = beta[h];
	for (uint r = 0; r < a.rows; r++) {
		// What the next row needs does not depend on S: asked for before this row's sums.
		const uint next = r + 1 < a.rows ? r + 1 : r;
		float4 q_after[PARTS];
		float4 k_after[PARTS];
		q_of = qk + next * gdn_qk_stride(a) + gdn_q_at(a, h);
		for (uint p = 0; p < PARTS; p++) {
			q_after[p] = load_part(q_of, n, QUAD * lane + p * QUAD * SIMD);
			k_after[p] = load_part(q_of + to_k, n, QUAD * lane + p * QUAD * SIMD);
		}
		const float v_after = v_of[size_t(next) * a.channels];
		const float gate_after = g[size_t(next) * a.v_heads + h], rate_after = beta[size_t(next) * a.v_heads + h];

		float sk[QUAD];
		float sq[QUAD];
		float kq = 0.0f;
		for (uint p = 0; p < PARTS; p++) kq = dot_onto(k[p], q[p], kq);
		for (uint i = 0; i < QUAD; i++) {
			sk[i] = sq[i] = 0.0f;
			for (uint p = 0; p < PARTS; p++) {
				sk[i] = dot_onto(s[i][p], k[p], sk[i]);
				sq[i] = dot_onto(s[i][p], q[p], sq[i]);
			}
		}
		const float predicted = sums_of_four(sk[0], sk[1], sk[2], sk[3], lane);
		const float read = sums_of_four(sq[0], sq[1], sq[2], sq[3], lane);
		kq = simd_sum(kq);
		const float decay = precise::exp(gate);
		const float d = rate * fma(-decay, predicted, v);
		if (lane < QUAD) o[r * gdn_o_stride(a) + gdn_o_at(a, h) + v_row] = fma(d, kq, decay * read);
		for (uint i = 0; i < QUAD; i++) {
			const float di = simd_shuffle(d, i);
			for (uint p = 0; p < PARTS; p++) s[i][p] = updated(s[i][p], decay, di, k[p]);
		}
		for (uint p = 0; p < PARTS; p++) {
			q[p] = q_after[p];
			k[p] = k_after[p];
		}
		v = v_after;
		gate = gate_after;
		rate = rate_after;
	}

	for (uint i = 0; i < QUAD; i++)
		for (uint p = 0; p < PARTS; p++) {
			const uint at = QUAD * lane + p * QUAD * SIMD;
			if (at < n) *(device float4*)(mine + size_t(i) * n + at) = s[i][p];
		}
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_step)]]
void gdn_step(device const float* qk [[buffer(0)]],
              device const float* conv [[buffer(1)]],
              device const float* g [[buffer(2)]],
              device const float* beta [[buffer(3)]],
              device float* gdn_state [[buffer(4)]],
              device float* o [[buffer(5)]],
              constant gdn_step_args& a [[buffer(16)]],
              uint3 tg [[threadgroup_position_in_grid]],
              uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
	const uint h = tg.y;
	if (h >= a.v_heads || tg.x >= a.head_dim / ROWS_OF_GROUP || a.rows == 0) return;
	const uint v0 = tg.x * ROWS_OF_GROUP + sg * QUAD;
	if (a.head_dim <= QUAD * SIMD)
		step_rows<1>(qk, conv, g, beta, gdn_state, o, a, h, v0, lane);
	else
		step_rows<2>(qk, conv, g, beta, gdn_state, o, a, h, v0, lane);
}
