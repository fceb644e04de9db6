// beta[r,h] = sigmoid(proj[r,bCol+h]); g[r,h] = negA[h] * softplus(proj[r,aCol+h] + dtBias[h]).
// A thread does one (r, h). No threadgroup memory.
#include "kernels/shared/metal/base.h"

// log(1 + u) for 0 <= u <= 1 as 2 atanh(s), s = u / (2 + u) <= 1/3. It keeps the relative accuracy of small u, which
// the logarithm of a rounded 1 + u loses; the first term left out is below 2e-9 of the sum.
inline float log1p_of_fraction(float u) {
	const float s = u / (2.0f + u), z = s * s;
	float p = 1.0f / 17.0f;
	p = fma(p, z, 1.0f / 15.0f);
	p = fma(p, z, 1.0f / 13.0f);
	p = fma(p, z, 1.0f / 11.0f);
	p = fma(p, z, 1.0f / 9.0f);
	p = fma(p, z, 1.0f / 7.0f);
	p = fma(p, z, 1.0f / 5.0f);
	p = fma(p, z, 1.0f / 3.0f);
	p = fma(p, z, 1.0f);
	return 2.0f * s * p;
}

inline float softplus(float x) { return max(x, 0.0f) + log1p_of_fraction(precise::exp(-fabs(x))); }

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_gates)]]
void gdn_gates(device const float* proj [[buffer(0)]],
               device const float* neg_a [[buffer(1)]],
               device const float* dt_bias [[buffer(2)]],
               device float* beta [[buffer(3)]],
               device float* g [[buffer(4)]],
               constant gdn_gates_args& a [[buffer(16)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]]) {
	const uint at = tg.x * LW_THREADS_gdn_gates + tid, r = at / a.v_heads, h = at % a.v_heads;
	if (r < a.rows) {
		device const float* row = proj + size_t(r) * a.proj_stride;
		beta[at] = sigmoid(row[a.b_col + h]);
		g[at] = neg_a[h] * softplus(row[a.a_col + h] + dt_bias[h]);
	}
}
