// Products with rows that are normed on the way: x[r,i] * w_norm[i] goes into the dots, and 1 / sqrt(mean_i(x[r,i]^2) +
// eps) multiplies the finished sums. A simdgroup reads whole rows of x for its dots, so the squares cost it no read.
#pragma once
#include "kernels/shared/metal/dot.h"

// R rows of x times w_norm as a dot reads them; squares[r] gets what this lane reads of row r.
template <uint R>
struct WeighedRows {
	device const float* x;
	device const float* w_norm;
	uint in_dim;
	float squares[R];
	inline float4 four(uint r, uint k) {
		return weigh(r, *(device const float4*)(x + r * in_dim + k), *(device const float4*)(w_norm + k));
	}
	inline float4 any_four(uint r, uint k) {
		return weigh(r, load_part(x + r * in_dim + k, in_dim - k), load_part(w_norm + k, in_dim - k));
	}
	inline float4 weigh(uint r, float4 v, float4 w) {
		float s = fma(v.x, v.x, squares[r]);
		s = fma(v.y, v.y, s);
		s = fma(v.z, v.z, s);
		squares[r] = fma(v.w, v.w, s);
		return v * w;
	}
};

// What the sums of a row get, from the squares that its lanes saw.
inline float inverse_norm(float squares, uint in_dim, float eps) {
	return precise::rsqrt(simd_sum(squares) / float(in_dim) + eps);
}
