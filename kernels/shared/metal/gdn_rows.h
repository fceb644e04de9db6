// The recurrence of gdn_step, which gdn_verify and gdn_commit must repeat bit by bit. gdn_verify works out o and d,
// gdn_commit changes S by d, which takes no sums over lanes: for each row r in order, with
// S = gdnState[h] ([v][k]), q and k of the value head's key head:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; o[r,h] = S q.
// The v rows of S are independent. A simdgroup takes 4 of them and a lane 4 or 8 of their keys: its part of S stays
// in registers through all rows. Both products are taken with the old S, S' q = exp(g) S q + d (k q), so a row costs
// one round of sums over lanes and not two.
// headDim is a multiple of 16 and at most 256; every vector of qk and gdnState begins at a multiple of 16 bytes.
// Registers: 16 floats of S a lane up to headDim 128, 32 above; q and k of this row and of the next.
#pragma once
#include "kernels/shared/metal/gdn.h"

constant constexpr uint QUAD = 4;
constant constexpr uint GDN_KEYS = QUAD * SIMD;  // keys of a v row that the first float4 of all lanes hold
constant constexpr uint GDN_ROWS_OF_GROUP = QUAD * LW_THREADS_gdn_step / SIMD;  // op.ts counts threadgroups by it
static_assert(LW_THREADS_gdn_verify == LW_THREADS_gdn_step && LW_THREADS_gdn_commit == LW_THREADS_gdn_step,
              "the ops divide a state alike");

struct GdnInputs {
	device const float* qk;
	device const float* conv;
	device const float* g;
	device const float* beta;
};

// QUAD v rows of S; a lane has keys 4 lane + 128 p of each.
template <uint PARTS>
struct GdnTile {
	float4 s[QUAD][PARTS];
};

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

// `rows` is the first of the tile's v rows, n keys each.
template <uint PARTS>
inline void gdn_load(device const float* rows, uint n, uint lane, thread GdnTile<PARTS>& tile) {
	for (uint i = 0; i < QUAD; i++)
		for (uint p = 0; p < PARTS; p++) tile.s[i][p] = load_part(rows + size_t(i) * n, n, QUAD * lane + p * GDN_KEYS);
}

template <uint PARTS>
inline void gdn_store(device float* rows, uint n, uint lane, const thread GdnTile<PARTS>& tile) {
	for (uint i = 0; i < QUAD; i++)
		for (uint p = 0; p < PARTS; p++) {
			const uint at = QUAD * lane + p * GDN_KEYS;
			if (at < n) *(device float4*)(rows + size_t(i) * n + at) = tile.s[i][p];
		}
}

// S becomes the next S by d of its QUAD v rows.
template <uint PARTS>
inline void gdn_change(thread GdnTile<PARTS>& tile, const thread float4* k, float decay, const thread float* d) {
	for (uint i = 0; i < QUAD; i++)
		for (uint p = 0; p < PARTS; p++) tile.s[i][p] = updated(tile.s[i][p], decay, d[i], k[p]);
}

// One row: S becomes the next S. Lane i gets o and d of v row i % 4; v is of that v row too.
template <uint PARTS>
inline float gdn_row(thread GdnTile<PARTS>& tile, const thread float4* q, const thread float4* k, float v, float gate,
                     float rate, uint lane, thread float& d) {
	float sk[QUAD];
	for (uint i = 0; i < QUAD; i++) {
		sk[i] = 0.0f;
		for (uint p = 0; p < PARTS; p++) sk[i] = dot_onto(tile.s[i][p], k[p], sk[i]);
	}
	const float predicted = sums_of_four(sk[0], sk[1], sk[2], sk[3], lane);
	const float decay = precise::exp(gate);
	d = rate * fma(-decay, predicted, v);
	float sq[QUAD];
	float kq = 0.0f;
	for (uint p = 0; p < PARTS; p++) kq = dot_onto(k[p], q[p], kq);
	for (uint i = 0; i < QUAD; i++) {
		sq[i] = 0.0f;
		for (uint p = 0; p < PARTS; p++) sq[i] = dot_onto(tile.s[i][p], q[p], sq[i]);
	}
	const float read = sums_of_four(sq[0], sq[1], sq[2], sq[3], lane);
	kq = simd_sum(kq);
	const float o = fma(d, kq, decay * read);
	float all[QUAD];
	for (uint i = 0; i < QUAD; i++) all[i] = simd_shuffle(d, i);
	gdn_change<PARTS>(tile, k, decay, all);
	return o;
}

// v rows v0 .. v0+3 of head h through the first `rows` > 0 rows; d is written where KEEPS says so.
template <bool KEEPS, uint PARTS, typename ARGS>
inline void gdn_walk(const thread GdnInputs& in, device float* o, device float* d_out, const constant ARGS& a,
                     uint rows, uint h, uint v0, uint lane, thread GdnTile<PARTS>& tile) {
	const uint n = a.head_dim;
	// In sums by lanes, lane i has v row i % 4.
	const uint v_row = v0 + lane % QUAD;
	device const float* q_of = in.qk + gdn_q_at(a, h);
	device const float* v_of = in.conv + gdn_v_at(a, h) + v_row;
	const size_t to_k = gdn_q_to_k(a);
	float4 q[PARTS];
	float4 k[PARTS];
	for (uint p = 0; p < PARTS; p++) {
		q[p] = load_part(q_of, n, QUAD * lane + p * GDN_KEYS);
		k[p] = load_part(q_of + to_k, n, QUAD * lane + p * GDN_KEYS);
	}
	float v = *v_of, gate = in.g[h], rate = in.beta[h];
	for (uint r = 0; r < rows; r++) {
		// What the next row needs does not depend on S: asked for before this row's sums.
		const uint next = r + 1 < rows ? r + 1 : r;
		float4 q_after[PARTS];
		float4 k_after[PARTS];
		q_of = in.qk + next * gdn_qk_stride(a) + gdn_q_at(a, h);
		for (uint p = 0; p < PARTS; p++) {
			q_after[p] = load_part(q_of, n, QUAD * lane + p * GDN_KEYS);
			k_after[p] = load_part(q_of + to_k, n, QUAD * lane + p * GDN_KEYS);
		}
		const float v_after = v_of[size_t(next) * a.channels];
		const float gate_after = in.g[size_t(next) * a.v_heads + h], rate_after = in.beta[size_t(next) * a.v_heads + h];

		float d;
		const float read = gdn_row<PARTS>(tile, q, k, v, gate, rate, lane, d);
		if (lane < QUAD) {
			const size_t at = r * gdn_o_stride(a) + gdn_o_at(a, h) + v_row;
			o[at] = read;
			if (KEEPS) d_out[at] = d;
		}
		for (uint p = 0; p < PARTS; p++) {
			q[p] = q_after[p];
			k[p] = k_after[p];
		}
		v = v_after;
		gate = gate_after;
		rate = rate_after;
	}
}

// The same of S alone, with d as gdn_walk has written it.
template <uint PARTS, typename ARGS>
inline void gdn_apply(device const float* qk, device const float* g, device const float* d, const constant ARGS& a,
                      uint rows, uint h, uint v0, uint lane, thread GdnTile<PARTS>& tile) {
	const uint n = a.head_dim;
	for (uint r = 0; r < rows; r++) {
		device const float* k_of = qk + r * gdn_qk_stride(a) + gdn_q_at(a, h) + gdn_q_to_k(a);
		device const float* d_of = d + r * gdn_o_stride(a) + gdn_o_at(a, h) + v0;
		float4 k[PARTS];
		for (uint p = 0; p < PARTS; p++) k[p] = load_part(k_of, n, QUAD * lane + p * GDN_KEYS);
		float all[QUAD];
		for (uint i = 0; i < QUAD; i++) all[i] = d_of[i];
		gdn_change<PARTS>(tile, k, precise::exp(g[r * size_t(a.v_heads) + h]), all);
	}
}
