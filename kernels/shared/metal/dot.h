// Dot products of f32 activations with rows of a stored weight, by one simdgroup for COLUMNS weight rows ("columns" of
// the result) and R activations at once. For affine weights, group by group,
//   sum_i x[i] * (scale * q[i] + bias) = scale * sum_i x[i] * q[i] + bias * sum_i x[i]
// A lane takes LANE_CODES codes (or LANE_VALUES dense values) of every row in a step, so that the simdgroup reads
// each row from end to end; weights are loaded once for all R activations. The order of sums depends on the format
// and on in_dim alone: an activation gets the same bits whatever R is.
#pragma once
#include "kernels/shared/metal/formats.h"

constant constexpr uint COLUMNS = 4;
// Whole groups hold a multiple of 16 codes, so these belong to one group and begin at a multiple of 8 bytes.
constant constexpr uint LANE_CODES = 16;
constant constexpr uint LANE_VALUES = 4;

// Where a row of a weight begins. Dense weights have neither scales nor biases.
template <typename F>
struct WeightRow {
	device const uchar* values;
	device const typename F::type* scales;
	device const typename F::type* biases;
};

// So many rows on.
template <uint BITS, uint GROUP, typename S>
inline void move_rows(thread WeightRow<WeightFormat<BITS, GROUP, S>>& w, size_t rows, uint in_dim) {
	w.values += rows * (in_dim / 8 * BITS);
	w.scales += rows * (in_dim / GROUP);
	w.biases += rows * (in_dim / GROUP);
}
template <typename T>
inline void move_rows(thread WeightRow<WeightFormat<0, 1, T>>& w, size_t rows, uint in_dim) {
	w.values += rows * in_dim * sizeof(T);
}

// Four adjacent values. Weights lie at multiples of 8 bytes, no more.
inline float4 load4(device const float* p) {
	const float2 a = *(device const float2*)p, b = *(device const float2*)(p + 2);
	return float4(a.x, a.y, b.x, b.y);
}
template <typename T>
inline float4 load4(device const T* p) {
	const vec<T, 4> v = *(device const vec<T, 4>*)p;
	return float4(float(v.x), float(v.y), float(v.z), float(v.w));
}
// Zeros from n on.
template <typename T>
inline float4 load_part(device const T* p, uint n) {
	return float4(n > 0 ? float(p[0]) : 0.0f, n > 1 ? float(p[1]) : 0.0f, n > 2 ? float(p[2]) : 0.0f, n > 3 ? float(p[3]) : 0.0f);
}

// R rows of activations as a dot reads them, each value once: four(r, k) are values k .. k + 3 of row r where all of
// them exist and lie at a multiple of 16 bytes, any_four(r, k) the same wherever they lie, with zeros behind the row.
struct PlainRows {
	device const float* x;
	uint in_dim;
	inline float4 four(uint r, uint k) { return *(device const float4*)(x + r * in_dim + k); }
	inline float4 any_four(uint r, uint k) { return load_part(x + r * in_dim + k, in_dim - k); }
};

// Adds to dots[r * COLUMNS + c] and totals[r] what codes 4 * J .. 4 * J + 3 of the lane contribute. A code is masked
// where it stands in its word, which is code * 2^(BITS * i), and x[i] is divided by the same power of two: products
// are those of x and code, without a shift for each code.
template <uint J, uint BITS, uint R, typename X>
inline void add_codes(thread const uint* words, thread X& x, uint k, thread float* dots, thread float* totals) {
	constexpr uint MASK = (1u << BITS) - 1, WORD = J * BITS / 8, SHIFT = J * BITS * 4 % 32;
	constexpr float UNIT = 1.0f / float(1u << BITS);
	float4 q[COLUMNS];
	LW_UNROLL
	for (uint c = 0; c < COLUMNS; c++) {
		const uint v = words[c * (BITS / 2) + WORD] >> SHIFT;
		q[c] = float4(float(v & MASK), float(v & (MASK << BITS)), float(v & (MASK << 2 * BITS)), float(v & (MASK << 3 * BITS)));
	}
	LW_UNROLL
	for (uint r = 0; r < R; r++) {
		float4 v = x.four(r, k + 4 * J);
		totals[r] += (v.x + v.y) + (v.z + v.w);
		v.y *= UNIT;
		v.z *= UNIT * UNIT;
		v.w *= UNIT * UNIT * UNIT;
		LW_UNROLL
		for (uint c = 0; c < COLUMNS; c++) {
			float d = dots[r * COLUMNS + c];
			d = fma(v.x, q[c].x, d);
			d = fma(v.y, q[c].y, d);
			d = fma(v.z, q[c].z, d);
			dots[r * COLUMNS + c] = fma(v.w, q[c].w, d);
		}
	}
}

// A lane's part of one step, from element k on. Rows behind `last` repeat it.
template <uint R, uint BITS, uint GROUP, typename S, typename X>
inline void add_step(thread const WeightRow<WeightFormat<BITS, GROUP, S>>& w, uint last, thread X& x, uint in_dim, uint k,
                     thread float* sums) {
	uint words[COLUMNS * (BITS / 2)];
	float scales[COLUMNS], biases[COLUMNS];
	LW_UNROLL
	for (uint c = 0; c < COLUMNS; c++) {
		const uint row = min(c, last);
		device const uint2* p = (device const uint2*)(w.values + row * (in_dim / 8 * BITS) + k / 8 * BITS);
		LW_UNROLL
		for (uint i = 0; i < BITS / 4; i++) {
			const uint2 v = p[i];
			words[c * (BITS / 2) + 2 * i] = v.x;
			words[c * (BITS / 2) + 2 * i + 1] = v.y;
		}
		const uint g = row * (in_dim / GROUP) + k / GROUP;
		scales[c] = float(w.scales[g]);
		biases[c] = float(w.biases[g]);
	}
	float dots[R * COLUMNS] = {}, totals[R] = {};
	add_codes<0, BITS, R>(words, x, k, dots, totals);
	add_codes<1, BITS, R>(words, x, k, dots, totals);
	add_codes<2, BITS, R>(words, x, k, dots, totals);
	add_codes<3, BITS, R>(words, x, k, dots, totals);
	LW_UNROLL
	for (uint r = 0; r < R; r++) {
		LW_UNROLL
		for (uint c = 0; c < COLUMNS; c++) {
			const uint i = r * COLUMNS + c;
			sums[i] = fma(scales[c], dots[i], fma(biases[c], totals[r], sums[i]));
		}
	}
}

template <uint R, typename T, typename X>
inline void add_step(thread const WeightRow<WeightFormat<0, 1, T>>& w, uint last, thread X& x, uint in_dim, uint k,
                     thread float* sums) {
	// Rows of whole vectors begin where vectors may.
	const bool aligned = in_dim % LANE_VALUES == 0;
	float4 q[COLUMNS];
	LW_UNROLL
	for (uint c = 0; c < COLUMNS; c++) {
		device const T* p = (device const T*)w.values + min(c, last) * in_dim + k;
		q[c] = aligned ? load4(p) : load_part(p, in_dim - k);
	}
	LW_UNROLL
	for (uint r = 0; r < R; r++) {
		const float4 v = aligned ? x.four(r, k) : x.any_four(r, k);
		LW_UNROLL
		for (uint c = 0; c < COLUMNS; c++) {
			float d = sums[r * COLUMNS + c];
			d = fma(v.x, q[c].x, d);
			d = fma(v.y, q[c].y, d);
			d = fma(v.z, q[c].z, d);
			sums[r * COLUMNS + c] = fma(v.w, q[c].w, d);
		}
	}
}

// Adds a lane's part of row c of w times activation r to sums[r * COLUMNS + c]; the rows of w are c = 0..last.
template <uint R, typename F, typename X>
inline void add_lane_dots_of(thread const WeightRow<F>& w, uint last, thread X& x, uint in_dim, uint lane, thread float* sums) {
	constexpr uint TAKEN = F::bits ? LANE_CODES : LANE_VALUES;
	for (uint k = lane * TAKEN; k < in_dim; k += SIMD * TAKEN) add_step<R>(w, last, x, in_dim, k, sums);
}
// The same with activations that lie behind one another.
template <uint R, typename F>
inline void add_lane_dots(thread const WeightRow<F>& w, uint last, device const float* x, uint in_dim, uint lane,
                          thread float* sums) {
	PlainRows rows = {x, in_dim};
	add_lane_dots_of<R>(w, last, rows, in_dim, lane, sums);
}

// One round of sum_lanes: pairs of lanes 32 * H / N apart share out 2 * H values, and each keeps half of them.
template <uint N, uint H>
inline void halve_values(thread float* v, uint lane) {
	constexpr ushort DISTANCE = ushort(SIMD * H / N);
	const bool upper = (lane & DISTANCE) != 0;
	LW_UNROLL
	for (uint i = 0; i < H; i++) {
		const float low = v[i], high = v[i + H];
		v[i] = (upper ? high : low) + simd_shuffle_xor(upper ? low : high, DISTANCE);
	}
}

// Sums of N values over the lanes of a simdgroup, N = 4, 8 or 16: lane l gets that of value l / (32 / N). Every value
// is summed by the same tree of lanes, 16, 8, 4, 2 and 1 apart, whatever N is. v is overwritten.
template <uint N>
inline float sum_lanes(thread float* v, uint lane) {
	if (N >= 16) halve_values<N, 8>(v, lane);
	if (N >= 8) halve_values<N, 4>(v, lane);
	halve_values<N, 2>(v, lane);
	halve_values<N, 1>(v, lane);
	float sum = v[0];
	LW_UNROLL
	for (uint distance = SIMD / 2 / N; distance > 0; distance /= 2) sum += simd_shuffle_xor(sum, ushort(distance));
	return sum;
}
