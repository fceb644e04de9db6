// o[r,h,d] *= sigmoid(qkv[r, h * 2 * headDim + headDim + d]). One task does one row and head.
// qkv rows hold the queries and gates of all heads (a constraint of the op).
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(attn_gate) {
	const auto& a = *static_cast<const attn_gate_args*>(args_);
	const auto* qkv = static_cast<const float*>(slots[attn_gate_slot::qkv]);
	auto* o = static_cast<float*>(slots[attn_gate_slot::o]);
	const uint32_t dim = a.head_dim;
	const uint64_t tasks = uint64_t(a.rows) * a.q_heads;
	for (uint64_t t = begin; t < end && t < tasks; t++) {
		const size_t r = t / a.q_heads, h = t % a.q_heads;
		attn_gate_head(o + t * dim, qkv + r * a.qkv_width + (2 * h + 1) * dim, dim);
	}
}

}  // namespace LW_CPU_NAMESPACE
