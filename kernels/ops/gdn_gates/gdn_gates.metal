// beta[r,h] = sigmoid(proj[r,bCol+h]); g[r,h] = negA[h] * softplus(proj[r,aCol+h] + dtBias[h]).
// A thread does one (r, h). No threadgroup memory.
#include "kernels/shared/metal/gdn.h"

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_gates)]]
void gdn_gates(device const float* proj [[buffer(0)]],
               device const float* neg_a [[buffer(1)]],
               device const float* dt_bias [[buffer(2)]],
               device float* beta [[buffer(3)]],
               device float* g [[buffer(4)]],
               constant gdn_gates_args& a [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]]) {
	gdn_gates_at(tg.x * LW_THREADS_gdn_gates + tid, proj, neg_a, dt_bias, beta, g, a);
}
